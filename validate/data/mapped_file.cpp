#include "data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "spec/error.h"

namespace zplan::trainer {

MappedFile::MappedFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
    const std::string why = file < 0 ? std::strerror(errno) : "it is empty or not a file";
    if (file >= 0) close(file);
    throw InputError(path, "cannot be read: " + why, "give the path of a readable file");
  }
  size_ = static_cast<std::size_t>(info.st_size);
  void* memory = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (memory == MAP_FAILED) {
    throw InputError(path, std::string("cannot be mapped: ") + std::strerror(error),
                     "free some memory");
  }
  data_ = static_cast<const unsigned char*>(memory);
}

MappedFile::~MappedFile() { munmap(const_cast<unsigned char*>(data_), size_); }

}  // namespace zplan::trainer
