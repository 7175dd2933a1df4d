// Turns expanded event tables into instructions: names become slots, modules and parameters of the run's model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "spec/run.h"
#include "step/script.h"
#include "step/table.h"

namespace zplan {

enum class Pass { Forward, Backward };
// Names that stand for a list of the caller's names.
using Bound = std::map<std::string, std::vector<std::string>>;

class Compiler {
 public:
  explicit Compiler(const Run& run);

  Script& script() { return script_; }

  // Instructions of tables outside the layers.
  Instructions outer(const TableRows& rows, Pass pass, const Bound& bound);

  // Instructions of one layer; `first`: its input is the embedding's output. recompute: run at @recompute.
  Instructions layer(const TableRows& rows, Pass pass, bool first, const Bound& bound,
                     const Instructions* recompute = nullptr);

  Script finish();

 private:
  struct Slot {
    std::int32_t index;
    bool local;
    std::int8_t shift;
  };

  Slot slot(const std::string& name, bool layer);
  static std::int32_t index(std::map<std::string, std::int32_t>& slots, const std::string& name);
  std::uint16_t label(const TableOp& op, bool layer);
  Instructions compile(const std::vector<TableOp>& ops, Pass pass, const Instructions* recompute, bool layer);
  // Multiply-adds of the matrix product of a row, forward or one of the two of backward; 0 for other operators.
  double product_flops(const std::string& step, const std::string& name) const;
  void place(Instruction& i, const std::string& name, bool layer);
  bool module(Instruction& i, const std::string& name, bool layer);
  std::int32_t layer_parameter(const std::string& name) const;
  std::int32_t outer_parameter(const std::string& name) const;

  const Run& run_;
  Sizes sizes_;
  Script script_;
  bool first_ = false;
  std::map<std::string, std::int32_t> outer_slots_, layer_slots_;
  std::map<std::string, std::uint16_t> labels_;
};

}  // namespace zplan
