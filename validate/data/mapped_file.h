// A file mapped read-only; its pages are shared by all ranks of a machine.
#pragma once

#include <cstddef>
#include <string>

namespace zplan::trainer {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // throws InputError
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const unsigned char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace zplan::trainer
