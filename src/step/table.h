// Event tables: what an operator, a layer or the head allocates and frees, in order, written as text.
//
// A row is  step | allocates | frees | modules :
//   allocate the names of column 2 in that order (`name=bytes`), then free those of column 3. Bytes are
//   products of one-letter sizes: `2NF` = 2*N*F (letters: docs/memory-model.md#notation).
//   `P[a](N,H){sav=p}` expands table P with its names prefixed `a.`; inside, `<sav>` (or a plain `sav`)
//   is the caller's p, and a `<name>` that is not given is nothing.
//   `hook:dW` hands a parameter's gradient over (AccumulateGrad). `@cublas` is where a thread's first matmul
//   takes its workspace, `@cublaslt` the same for its first matmul with a bias, `@recompute` where non-reentrant checkpointing runs the layer's forward again.
//   `a:=b` renames block b to a. `weight:m` is where backward drops its hold on the weight of module m: with
//   recomputation it is what keeps a released gather alive (zero3).
//   Column 4: the modules whose hooks run: `m` is entered before the row and left after its allocations
//   (forward) or at its end (backward); `m(` is only entered, `)m` only left. `^` in column 3 moves the
//   leaving to that place.
// A table with a base is that table with the rows of the same step replaced; an empty row deletes; a row with
// a new step stands right after the row above it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zplan {

struct TableText {
  const char* name;
  const char* base;  // "" for none
  const char* rows;
};

struct TableRow {
  std::string step, allocates, frees, modules;
  friend bool operator==(const TableRow&, const TableRow&) = default;
};
using TableRows = std::vector<TableRow>;

// The sizes that letters and names stand for.
class Sizes {
 public:
  void set(const std::string& name, std::int64_t value);
  std::int64_t at(std::string_view name) const;
  bool has(std::string_view name) const;
  // Multiprocessors of the GPU: torch's reductions split over them.
  std::int64_t sm_count = 132;
  // Pairs a block of cub's radix sort takes.
  std::int64_t sort_tile = 4608;

 private:
  static constexpr std::int64_t kUnset = -1;
  std::array<std::int64_t, 128> letters_ = [] {
    std::array<std::int64_t, 128> a{};
    a.fill(kUnset);
    return a;
  }();
  std::vector<std::pair<std::string, std::int64_t>> names_;  // few, longer than a letter
};

// Bytes of '2NA', '4IO/64' (rounded up), '8N+8B', 'CW', 'ws(R,C)', 'sort(N,R)': N pairs whose keys are below R.
std::int64_t evaluate(std::string_view text, const Sizes& sizes);

// Buffers of torch's sum over R rows of C columns in bf16 (the weight gradient of a norm): global reduction
// scratch and semaphores. aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig; docs/memory-model.md#reduction.
struct ReductionBuffers {
  std::int64_t workspace = 0, semaphores = 0;
};
ReductionBuffers reduction_buffers(std::int64_t rows, std::int64_t columns, std::int64_t sm_count);

// Temporary storage of cub::DeviceRadixSort::SortPairs for n pairs of 64-bit keys and values, of which `key_bits` are
// sorted by; tile: pairs a block takes. cub/device/dispatch/dispatch_radix_sort.cuh, InvokeOnesweep;
// docs/memory-model.md#sort.
std::int64_t radix_sort_storage(std::int64_t n, std::int64_t key_bits, std::int64_t tile);
// Pairs of 64 bits each a block takes: cub/device/dispatch/tuning/tuning_radix_sort.cuh, OnesweepPolicy.
std::int64_t radix_sort_tile(int compute_capability_major);

// One step of an expanded table.
struct TableOp {
  enum class Kind { Allocate, Free, Hook, Rename, Enter, Leave, Cublas, Recompute, Weight };
  Kind kind = Kind::Allocate;
  std::string name;       // block, or module for Enter/Leave
  std::string other;      // Rename: the block that takes the name
  std::int64_t bytes = 0;
  std::string step;       // the row of the outermost table
};

// All tables by name, bases resolved.
class TableBook {
 public:
  explicit TableBook(const std::vector<TableText>& texts);
  const TableRows& rows(const std::string& name) const;
  // The ops of `rows`. bound: names that stand for a list of the caller's names.
  std::vector<TableOp> expand(const TableRows& rows, const Sizes& sizes,
                              const std::map<std::string, std::vector<std::string>>& bound = {}) const;

 private:
  using Bound = std::map<std::string, std::vector<std::string>>;
  void expand_into(std::vector<TableOp>& out, const TableRows& rows, const Sizes& sizes,
                   const std::string& prefix, const Bound& bound, const std::string& step, bool leave_last) const;
  std::map<std::string, TableRows> tables_;
};

// Rows with every macro `from[` read as `to[`; the steps before / up to / from one step.
TableRows with_macro(TableRows rows, const std::string& from, const std::string& to);
TableRows rows_until(const TableRows& rows, const std::string& step);       // including it
TableRows rows_from(const TableRows& rows, const std::string& step);
TableRows append(TableRows rows, const TableRows& more);
// Rows of `patch` over `rows`, as a table with a base.
TableRows replaced(TableRows rows, const TableRows& patch);
TableRows parse_rows(const char* text);

}  // namespace zplan
