#include <ATen/Parallel.h>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include "model/checkpoint.h"

int main(int argc, char** argv) {
  at::set_num_threads(1);  // the tests fork ranks: no pool of threads may exist before
  zplan::trainer::install_saved_tensor_hooks();
  return Catch::Session().run(argc, argv);
}
