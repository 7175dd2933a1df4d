// Pieces that several text reports share.
#pragma once

#include <string>
#include <vector>

#include "io/report.h"
#include "step/simulation.h"
#include "units/units.h"

namespace zplan {

// Text between escape sequences where the style has colours, else as it is.
class Paint {
 public:
  explicit Paint(const TextStyle& style) : on_(style.colour) {}
  std::string bold(const std::string& s) const { return wrap("1", s); }
  std::string dim(const std::string& s) const { return wrap("2", s); }
  std::string good(const std::string& s) const { return wrap("32", s); }
  std::string bad(const std::string& s) const { return wrap("31", s); }
  std::string warn(const std::string& s) const { return wrap("33", s); }

 private:
  std::string wrap(const char* code, const std::string& s) const {
    return on_ ? "\x1b[" + std::string(code) + "m" + s + "\x1b[0m" : s;
  }
  bool on_;
};

// "36.6": GiB without the unit, for columns that name it.
std::string gib(Bytes bytes);
// "12 %", "0.3 %", "less than 0.1 %".
std::string percent(double share);
// "1.24x".
std::string times(double ratio);
// A heading and text beside it: "Plan    ...", the text's further lines indented alike and broken at 110 columns.
std::string paragraph(const std::string& heading, const std::string& text, const Paint& paint);
// "Qwen3-8B on 4 x A100-SXM4-40GB: full fine-tuning, bf16, 2,048 tokens a sequence".
std::string subject(const Run& run, const Cluster& cluster);
// What stands in the device's memory: a bar of `width` characters for used, outside and free.
std::string memory_bar(Bytes used, Bytes outside, Bytes capacity, std::size_t width, const Paint& paint);
// The parts of the peak, largest first, each with its bytes and a bar.
std::string component_table(const Peak& peak, const Paint& paint);
// "step 1, backward: log-softmax: g2".
std::string moment_text(const Moment& moment);
std::string notes_text(const std::vector<Note>& notes, const Paint& paint);

}  // namespace zplan
