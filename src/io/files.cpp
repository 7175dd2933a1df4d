#include "io/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "spec/error.h"

namespace zplan {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void cannot_read(const std::string& path) {
  throw InputError(path, "there is no such file", "check the path");
}

// Files written under temporary names; those not yet renamed are removed when the writing fails.
class TemporaryFiles {
 public:
  TemporaryFiles() = default;
  TemporaryFiles(const TemporaryFiles&) = delete;
  TemporaryFiles& operator=(const TemporaryFiles&) = delete;
  ~TemporaryFiles() {
    for (const auto& [temporary, final_path] : pending_) ::unlink(temporary.c_str());
  }

  void write(const fs::path& final_path, const OutputFile& file) {
    std::string temporary = final_path.string() + ".XXXXXX";
    const int fd = ::mkstemp(temporary.data());
    if (fd < 0) fail(final_path, errno);
    pending_.emplace_back(temporary, final_path.string());
    std::size_t done = 0;
    while (done < file.text.size()) {
      const ssize_t n = ::write(fd, file.text.data() + done, file.text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) { const int error = errno; ::close(fd); fail(final_path, error); }
      done += static_cast<std::size_t>(n);
    }
    const mode_t mask = ::umask(0);  // mkstemp makes 0600; give what a plain open() would
    ::umask(mask);
    const mode_t mode = (file.executable ? 0777U : 0666U) & ~mask;
    if (::fchmod(fd, mode) != 0 || ::fsync(fd) != 0) { const int error = errno; ::close(fd); fail(final_path, error); }
    if (::close(fd) != 0) fail(final_path, errno);
  }

  void rename_all() {
    while (!pending_.empty()) {
      const auto [temporary, final_path] = pending_.front();
      if (::rename(temporary.c_str(), final_path.c_str()) != 0) fail(final_path, errno);
      pending_.erase(pending_.begin());
    }
  }

 private:
  [[noreturn]] static void fail(const fs::path& path, int error) {
    throw InputError(path.string(), std::string("cannot be written: ") + std::strerror(error),
                     "choose another folder with --out, or free the space or the permission");
  }
  std::vector<std::pair<std::string, std::string>> pending_;  // temporary, final
};

}  // namespace

bool DiskFiles::exists(const std::string& path) const {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string DiskFiles::read(const std::string& path) const {
  std::error_code error;
  if (fs::is_directory(path, error)) throw InputError(path, "is a folder, not a file", "name a file in it");
  if (!fs::exists(path, error)) cannot_read(path);
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in) throw InputError(path, "cannot be read", "check the permissions of the file");
  return text.str();
}

std::vector<std::string> DiskFiles::list(const std::string& folder) const {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool MapFiles::exists(const std::string& path) const { return files_.count(path) > 0; }

std::string MapFiles::read(const std::string& path) const {
  const auto found = files_.find(path);
  if (found == files_.end()) cannot_read(path);
  return found->second;
}

std::vector<std::string> MapFiles::list(const std::string& folder) const {
  std::vector<std::string> paths;
  const std::string prefix = folder + "/";
  for (const auto& [path, text] : files_) {
    if (path.rfind(prefix, 0) == 0 && path.find('/', prefix.size()) == std::string::npos) paths.push_back(path);
  }
  return paths;
}

void write_files(const std::string& folder, const std::vector<OutputFile>& files) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) {
    throw InputError(folder, "cannot be made a folder" + (error ? ": " + error.message() : std::string()),
                     "choose another folder with --out");
  }
  TemporaryFiles temporary;
  for (const OutputFile& file : files) temporary.write(fs::path(folder) / file.name, file);
  temporary.rename_all();
}

}  // namespace zplan
