#include "io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "spec/error.h"

namespace zplan {

std::string read_maybe_gzipped(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw InputError(path, std::strerror(errno), "name a file that can be read");
  gzbuffer(file.get(), 1 << 17);
  std::string out;
  std::size_t filled = 0;
  for (;;) {
    if (filled == out.size()) out.resize(out.empty() ? 1 << 20 : 2 * out.size());
    const std::size_t room = std::min<std::size_t>(out.size() - filled, 1 << 30);
    const int n = gzread(file.get(), out.data() + filled, static_cast<unsigned>(room));
    if (n < 0) {
      int code = 0;
      throw InputError(path, std::string("damaged gzip data: ") + gzerror(file.get(), &code),
                       "write the file again");
    }
    if (n == 0) break;
    filled += static_cast<std::size_t>(n);
  }
  int code = 0;
  gzerror(file.get(), &code);
  if (code == Z_BUF_ERROR)
    throw InputError(path, "the gzip data ends early", "write the file again");
  out.resize(filled);
  return out;
}

}  // namespace zplan
