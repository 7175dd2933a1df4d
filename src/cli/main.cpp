// The zplan command: one file per subcommand, errors caught once, exit codes 0 / 1 / 2.
#include <cstdio>

#include "spec/error.h"

int main() {
  std::fprintf(stderr, "zplan: no command yet\n");
  return 2;
}
