#include "io/files.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/error_text.h"

using namespace zplan;
namespace fs = std::filesystem;

namespace {

// A new folder, removed at the end.
struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "zplan-files-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("files are written whole, over old ones, and scripts are executable", "[io]") {
  const Folder folder;
  const std::string out = (folder.path / "a" / "b").string();
  write_files(out, {{"x.json", "old"}});
  write_files(out, {{"x.json", "{}"}, {"launch.sh", "#!/bin/sh\n", true}});
  CHECK(DiskFiles().read(out + "/x.json") == "{}");
  CHECK(DiskFiles().list(out) == std::vector<std::string>{out + "/launch.sh", out + "/x.json"});
  struct stat status {};
  REQUIRE(::stat((out + "/launch.sh").c_str(), &status) == 0);
  CHECK((status.st_mode & S_IXUSR) != 0);
  REQUIRE(::stat((out + "/x.json").c_str(), &status) == 0);
  CHECK((status.st_mode & S_IXUSR) == 0);
}

TEST_CASE("when one file cannot be written the others stay as they were and nothing is left behind", "[io]") {
  const Folder folder;
  const std::string out = folder.path.string();
  write_files(out, {{"a.json", "old"}});
  // b/c.json: there is no folder b
  CHECK(error_text([&] { write_files(out, {{"a.json", "new"}, {"b/c.json", "new"}}); }) ==
        out + "/b/c.json: cannot be written: No such file or directory\n"
              "  fix: choose another folder with --out, or free the space or the permission");
  CHECK(DiskFiles().read(out + "/a.json") == "old");
  CHECK(files_in(folder.path) == 1);
}

TEST_CASE("a file where the folder should be is an error", "[io]") {
  const Folder folder;
  const std::string out = (folder.path / "out").string();
  std::ofstream(out) << "a file";
  const std::string error = error_text([&] { write_files(out, {{"a", ""}}); });
  CHECK(error.rfind(out + ": cannot be made a folder", 0) == 0);
}

TEST_CASE("what cannot be read says so", "[io]") {
  const Folder folder;
  const std::string path = folder.path.string();
  CHECK(error_text([&] { DiskFiles().read(path + "/no.json"); }) ==
        path + "/no.json: there is no such file\n  fix: check the path");
  CHECK(error_text([&] { DiskFiles().read(path); }) ==
        path + ": is a folder, not a file\n  fix: name a file in it");
  CHECK(error_text([] { MapFiles{{"a", "1"}}.read("b"); }) == "b: there is no such file\n  fix: check the path");
  CHECK(MapFiles{{"d/a", "1"}, {"d/e/b", "2"}}.list("d") == std::vector<std::string>{"d/a"});
}
