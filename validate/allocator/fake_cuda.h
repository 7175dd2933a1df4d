// What the stand-in for the CUDA runtime is told by the test that runs on it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zplan::fake_cuda {

// Bytes of the device, and how many of them others leave us.
std::size_t total();
void set_capacity(std::size_t bytes);
// Where new segments and reservations go: the sequence of a random generator.
void set_seed(std::uint64_t seed);
// Where the last one went.
std::uint64_t last_range();

}  // namespace zplan::fake_cuda
