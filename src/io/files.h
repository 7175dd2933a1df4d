// Where files come from (a disk, or a map in tests) and how they are written: whole or not at all.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace zplan {

class FileSource {
 public:
  FileSource() = default;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  virtual ~FileSource() = default;
  virtual bool exists(const std::string& path) const = 0;
  // The whole text. Throws InputError if there is no such file or it cannot be read.
  virtual std::string read(const std::string& path) const = 0;
  // The paths (folder/name) of the files directly in `folder`, sorted; none if there is no such folder.
  virtual std::vector<std::string> list(const std::string& folder) const = 0;
};

class DiskFiles final : public FileSource {
 public:
  bool exists(const std::string& path) const override;
  std::string read(const std::string& path) const override;
  std::vector<std::string> list(const std::string& folder) const override;
};

class MapFiles final : public FileSource {
 public:
  MapFiles() = default;
  MapFiles(std::initializer_list<std::pair<const std::string, std::string>> files) : files_(files) {}  // path, text
  bool exists(const std::string& path) const override;
  std::string read(const std::string& path) const override;
  std::vector<std::string> list(const std::string& folder) const override;

 private:
  std::map<std::string, std::string> files_;
};

struct OutputFile {
  std::string name;         // within the folder
  std::string text;
  bool executable = false;  // a script
  friend bool operator==(const OutputFile&, const OutputFile&) = default;
};

// Writes the files into `folder`, which is made if it is not there. Every file is first written whole under a
// temporary name in the same folder; only when all are on the disk are they renamed into place, so that a full
// disk or an interruption leaves the old files as they were. Throws InputError naming the file that failed.
void write_files(const std::string& folder, const std::vector<OutputFile>& files);

}  // namespace zplan
