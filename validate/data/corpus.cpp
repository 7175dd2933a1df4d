#include "data/corpus.h"

#include <algorithm>
#include <cstring>

#include "data/mapped_file.h"
#include "spec/error.h"

namespace zplan::trainer {
namespace {

// splitmix64: a good hash of a counter, so that any sequence can be made without those before it.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class Synthetic final : public Corpus {
 public:
  Synthetic(std::int64_t vocab, std::uint64_t seed)
      : used_(static_cast<std::uint64_t>(std::min<std::int64_t>(vocab, 1024))), seed_(seed) {}
  at::Tensor sequences(std::int64_t first, std::int64_t count,
                       std::int64_t seq_len) const override {
    at::Tensor ids = at::empty({count, seq_len}, at::kLong);
    auto* out = ids.data_ptr<std::int64_t>();
    for (std::int64_t s = 0; s < count; ++s) {
      std::uint64_t random = mix(seed_ ^ mix(static_cast<std::uint64_t>(first + s)));
      std::uint64_t token = random % used_;
      for (std::int64_t t = 0; t < seq_len; ++t) {
        *out++ = static_cast<std::int64_t>(token);
        random = mix(random);
        token = mix(token * 4 + random % 4) % used_;
      }
    }
    return ids;
  }

 private:
  std::uint64_t used_, seed_;
};

class TokenFile final : public Corpus {
 public:
  TokenFile(const std::string& path, std::int64_t vocab)
      : path_(path),
        file_(path),
        width_(vocab <= 65536 ? 2 : 4),
        vocab_(vocab),
        tokens_(static_cast<std::int64_t>(file_.size() / width_)) {
    if (file_.size() % width_ != 0) {
      throw InputError(path, "its size is not a multiple of " + std::to_string(width_) + " bytes",
                       "write one " + std::to_string(8 * width_) + "-bit little-endian id a token");
    }
  }
  at::Tensor sequences(std::int64_t first, std::int64_t count,
                       std::int64_t seq_len) const override {
    if (tokens_ < seq_len) {
      throw InputError(path_,
                       "holds " + std::to_string(tokens_) + " tokens, fewer than one sequence of " +
                           std::to_string(seq_len),
                       "give a longer file or a smaller --seq-len");
    }
    const std::int64_t whole = tokens_ / seq_len;
    at::Tensor ids = at::empty({count, seq_len}, at::kLong);
    auto* out = ids.data_ptr<std::int64_t>();
    for (std::int64_t s = 0; s < count; ++s) {
      const std::int64_t at = (first + s) % whole * seq_len;
      for (std::int64_t t = 0; t < seq_len; ++t) *out++ = token(at + t);
    }
    return ids;
  }

 private:
  std::int64_t token(std::int64_t at) const {
    std::uint32_t id = 0;
    std::memcpy(&id, file_.data() + static_cast<std::size_t>(at) * width_, width_);
    if (static_cast<std::int64_t>(id) >= vocab_) {
      throw InputError(path_,
                       "token " + std::to_string(at) + " is " + std::to_string(id) +
                           ", beyond a vocabulary of " + std::to_string(vocab_),
                       "tokenize with the model's own tokenizer");
    }
    return static_cast<std::int64_t>(id);
  }

  std::string path_;
  MappedFile file_;
  std::size_t width_;
  std::int64_t vocab_, tokens_;
};

}  // namespace

std::unique_ptr<Corpus> synthetic_corpus(std::int64_t vocab, std::uint64_t seed) {
  return std::make_unique<Synthetic>(vocab, seed);
}

std::unique_ptr<Corpus> token_file(const std::string& path, std::int64_t vocab) {
  return std::make_unique<TokenFile>(path, vocab);
}

}  // namespace zplan::trainer
