// What is trained on: sequences by index, the same for every world size, so that runs can be
// compared.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>

namespace zplan::trainer {

class Corpus {
 public:
  Corpus() = default;
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;
  virtual ~Corpus() = default;
  // Sequences [first, first + count) as int64 [count, seq_len], on the CPU.
  virtual at::Tensor sequences(std::int64_t first, std::int64_t count,
                               std::int64_t seq_len) const = 0;
};

// A random walk in which every token has four possible successors, so the loss can fall from
// ln(vocabulary) towards ln(4).
std::unique_ptr<Corpus> synthetic_corpus(std::int64_t vocab, std::uint64_t seed);

// Token ids without a header, little endian: 2 bytes each where the vocabulary allows it,
// otherwise 4. The file is read again from its beginning when it ends. Throws InputError.
std::unique_ptr<Corpus> token_file(const std::string& path, std::int64_t vocab);

}  // namespace zplan::trainer
