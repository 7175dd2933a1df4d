#include "step/table.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cctype>
#include <stdexcept>

#include "units/units.h"

namespace zplan {
namespace {

std::string trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return std::string(s);
}

std::vector<std::string> split(std::string_view s, char separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (true) {
    const auto at = s.find(separator, from);
    parts.push_back(trimmed(s.substr(from, at == std::string_view::npos ? at : at - from)));
    if (at == std::string_view::npos) return parts;
    from = at + 1;
  }
}

std::vector<std::string> words(const std::string& s) {
  std::vector<std::string> out;
  for (auto& w : split(s, ' ')) {
    if (!w.empty()) out.push_back(std::move(w));
  }
  return out;
}

// An item of column 2: `name=bytes`, a macro or an @ mark.
struct Item {
  std::string name, size;                 // name=bytes, or @mark in name
  std::string macro, prefix, args, bound;  // macro[prefix](args){bound}
};

std::vector<Item> items(const std::string& cell) {
  std::vector<Item> out;
  std::size_t at = 0;
  const auto until = [&](char c) {
    const auto end = cell.find(c, at);
    if (end == std::string::npos) throw std::logic_error("event table: cannot read '" + cell + "'");
    auto s = cell.substr(at, end - at);
    at = end + 1;
    return s;
  };
  while (at < cell.size()) {
    if (cell[at] == ' ') { ++at; continue; }
    Item item;
    if (cell.size() > at + 2 && cell[at + 2] == '[') {
      item.macro = until('[');
      item.prefix = until(']');
      if (cell[at] == '(') { ++at; item.args = until(')'); }
      if (at < cell.size() && cell[at] == '{') { ++at; item.bound = until('}'); }
    } else if (cell[at] == '@') {
      const auto end = std::min(cell.find(' ', at), cell.size());
      item.name = cell.substr(at, end - at);
      at = end;
    } else {
      item.name = until('=');
      std::size_t end = at;
      for (int depth = 0; end < cell.size() && (depth > 0 || cell[end] != ' '); ++end) {
        depth += cell[end] == '(' ? 1 : cell[end] == ')' ? -1 : 0;
      }
      item.size = cell.substr(at, end - at);
      at = end;
    }
    out.push_back(std::move(item));
  }
  return out;
}

// Parameter letters of a macro, by its first letter.
const char* macro_parameters(char first) {
  switch (first) {
    case 'N': return "RC";
    case 'R': return "C";
    case 'G': case 'Q': case 'Z': case 'g': case 'q': case 'z': return "IO";
    case 'I': return "ZR";
    default: return "";
  }
}

std::size_t find_step(const TableRows& rows, const std::string& step) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].step == step) return i;
  }
  throw std::logic_error("event table: no row '" + step + "'");
}

}  // namespace

void Sizes::set(const std::string& name, std::int64_t value) {
  if (name.size() == 1) {
    letters_[static_cast<std::size_t>(name[0])] = value;
    return;
  }
  for (auto& [known, old] : names_) {
    if (known == name) { old = value; return; }
  }
  names_.emplace_back(name, value);
}

std::int64_t Sizes::at(std::string_view name) const {
  if (name.size() == 1 && letters_[static_cast<std::size_t>(name[0])] != kUnset) return letters_[static_cast<std::size_t>(name[0])];
  for (const auto& [known, value] : names_) {
    if (known == name) return value;
  }
  throw std::logic_error("event table: no size '" + std::string(name) + "'");
}

bool Sizes::has(std::string_view name) const {
  if (name.size() == 1) return letters_[static_cast<std::size_t>(name[0])] != kUnset;
  return std::any_of(names_.begin(), names_.end(), [&](const auto& n) { return n.first == name; });
}

std::int64_t evaluate(std::string_view text, const Sizes& sizes) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.size() > 1 && sizes.has(text)) return sizes.at(text);
  if (text.rfind("ws(", 0) == 0 || text.rfind("sem(", 0) == 0) {
    const auto open = text.find('('), comma = text.find(',');
    const auto buffers = reduction_buffers(evaluate(text.substr(open + 1, comma - open - 1), sizes),
                                           evaluate(text.substr(comma + 1, text.size() - comma - 2), sizes), sizes.sm_count);
    return text[0] == 'w' ? buffers.workspace : buffers.semaphores;
  }
  if (text.rfind("sort(", 0) == 0) {
    const auto comma = text.find(',');
    const auto keys = evaluate(text.substr(comma + 1, text.size() - comma - 2), sizes);
    return radix_sort_storage(evaluate(text.substr(5, comma - 5), sizes),
                              std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(keys - 1, 1))), sizes.sort_tile);
  }
  // Terms of products, each over its divisors, rounded up: 8N+8B, 4IO/64.
  std::int64_t total = 0, value = 1;
  const auto digits = [&](std::size_t& i) {
    std::int64_t n = 0;
    while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]))) n = n * 10 + (text[i++] - '0');
    return n;
  };
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '+') { total += value; value = 1; ++i; }
    else if (text[i] == '/') { ++i; value = ceil_div(value, digits(i)); }
    else if (std::isdigit(static_cast<unsigned char>(text[i]))) value *= digits(i);
    else value *= sizes.at(text.substr(i++, 1));
  }
  return total + value;
}

ReductionBuffers reduction_buffers(std::int64_t rows, std::int64_t columns, std::int64_t sm_count) {
  const auto per_thread = ceil_div(rows, 4), grid = ceil_div(columns, 128), target = 16 * sm_count;
  if (per_thread < 256 || grid > target) return {};
  const auto c = std::max(std::min(ceil_div(target, grid), ceil_div(per_thread, 16)), ceil_div(per_thread, 256));
  if (c <= 1) return {};
  return {512 * columns * c, 4 * grid};
}

std::int64_t radix_sort_storage(std::int64_t n, std::int64_t key_bits, std::int64_t tile) {
  constexpr std::int64_t single_tile = 256 * 9, digits = 256;
  if (n <= single_tile) return 1;
  const auto aligned = [](std::int64_t bytes) { return ceil_div(bytes, 256) * 256; };
  const auto passes = ceil_div(key_bits, 8);
  const auto pairs = passes > 1 ? 2 * aligned(8 * n) : 0;
  return aligned(8 * digits * passes) + aligned(4 * digits * ceil_div(n, tile)) + pairs + aligned(4 * passes) + 255;
}

std::int64_t radix_sort_tile(int compute_capability_major) { return compute_capability_major >= 9 ? 384 * 12 : 384 * 10; }

TableRows parse_rows(const char* text) {
  TableRows rows;
  for (const auto& line : split(text, '\n')) {
    if (line.empty()) continue;
    auto cells = split(line, '|');
    cells.resize(4);
    rows.push_back({cells[0], cells[1], cells[2], cells[3]});
  }
  return rows;
}

TableRows replaced(TableRows rows, const TableRows& patch) {
  std::size_t last = 0;
  bool any = false;
  for (const auto& row : patch) {
    const auto it = std::find_if(rows.begin(), rows.end(), [&](const TableRow& r) { return r.step == row.step; });
    if (it != rows.end()) {
      last = static_cast<std::size_t>(it - rows.begin());
      *it = row;
    } else {
      last = any ? last + 1 : 0;
      rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(last), row);
    }
    any = true;
  }
  return rows;
}

TableRows with_macro(TableRows rows, const std::string& from, const std::string& to) {
  for (auto& row : rows) {
    for (std::size_t at = 0; (at = row.allocates.find(from + "[", at)) != std::string::npos; at += to.size()) {
      row.allocates.replace(at, from.size(), to);
    }
  }
  return rows;
}

TableRows rows_until(const TableRows& rows, const std::string& step) {
  return {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(find_step(rows, step)) + 1};
}

TableRows rows_from(const TableRows& rows, const std::string& step) {
  return {rows.begin() + static_cast<std::ptrdiff_t>(find_step(rows, step)), rows.end()};
}

TableRows append(TableRows rows, const TableRows& more) {
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

TableBook::TableBook(const std::vector<TableText>& texts) {
  for (const auto& text : texts) {
    const auto rows = parse_rows(text.rows);
    tables_[text.name] = *text.base == '\0' ? rows : replaced(tables_.at(text.base), rows);
  }
}

const TableRows& TableBook::rows(const std::string& name) const {
  const auto it = tables_.find(name);
  if (it == tables_.end()) throw std::logic_error("no event table " + name);
  return it->second;
}

std::vector<TableOp> TableBook::expand(const TableRows& rows, const Sizes& sizes, const Bound& bound) const {
  std::vector<TableOp> out;
  expand_into(out, rows, sizes, "", bound, "", true);
  return out;
}

void TableBook::expand_into(std::vector<TableOp>& out, const TableRows& rows, const Sizes& sizes,
                            const std::string& prefix, const Bound& bound, const std::string& outer_step,
                            bool top) const {
  std::vector<std::string> absent;  // names of no bytes: nothing is requested, and nothing freed
  const auto full = [&](std::string token) -> std::vector<std::string> {
    const bool placeholder = token.front() == '<';
    if (placeholder) token = token.substr(1, token.size() - 2);
    const auto it = bound.find(token);
    if (it != bound.end()) return it->second;
    return placeholder ? std::vector<std::string>{} : std::vector<std::string>{prefix + token};
  };
  using Kind = TableOp::Kind;
  for (const auto& row : rows) {
    const auto& step = top ? row.step : outer_step;
    const auto modules = words(row.modules);
    const auto leave = [&] {
      for (const auto& m : modules) {
        if (m.back() == '(') continue;
        out.push_back({Kind::Leave, prefix + (m.front() == ')' ? m.substr(1) : m), "", 0, step});
      }
    };
    for (const auto& m : modules) {
      if (m.front() == ')') continue;
      out.push_back({Kind::Enter, prefix + (m.back() == '(' ? m.substr(0, m.size() - 1) : m), "", 0, step});
    }
    for (const auto& item : items(row.allocates)) {
      if (!item.macro.empty()) {
        Sizes inner = sizes;
        const char* letters = macro_parameters(item.macro.front());
        std::size_t i = 0;
        for (const auto& arg : split(item.args, ',')) {
          if (letters[i] != '\0') inner.set(std::string(1, letters[i++]), evaluate(arg, sizes));
        }
        Bound given;
        // "sav=p out=dp" or "fr=o q.r k.r": a word with '=' starts a new name.
        std::string key;
        for (const auto& word : words(item.bound)) {
          const auto eq = word.find('=');
          std::string value = word;
          if (eq != std::string::npos) { key = word.substr(0, eq); value = word.substr(eq + 1); given[key]; }
          if (value.empty()) continue;
          for (auto& n : full(value)) given[key].push_back(std::move(n));
        }
        expand_into(out, this->rows(item.macro), inner, prefix + item.prefix + ".", given, step, false);
      } else if (item.name.front() == '@') {
        out.push_back({item.name == "@recompute" ? Kind::Recompute : Kind::Cublas, item.name, "", 0, step});
      } else {
        const auto size = evaluate(item.size, sizes);
        for (auto& n : full(item.name)) {
          if (size > 0) out.push_back({Kind::Allocate, std::move(n), "", size, step});
          else absent.push_back(std::move(n));
        }
      }
    }
    bool left = false;
    const auto is_absent = [&](const std::string& n) { return std::find(absent.begin(), absent.end(), n) != absent.end(); };
    for (const auto& token : words(row.frees)) {
      if (token == "^") { leave(); left = true; continue; }
      const auto rename = token.find(":=");
      if (rename != std::string::npos) {
        out.push_back({Kind::Rename, full(token.substr(0, rename)).front(), full(token.substr(rename + 2)).front(), 0, step});
        continue;
      }
      if (token.rfind("weight:", 0) == 0) {
        out.push_back({Kind::Weight, full(token.substr(7)).front(), "", 0, step});
        continue;
      }
      const bool hook = token.rfind("hook:", 0) == 0;
      for (auto& n : full(hook ? token.substr(5) : token)) {
        if (!is_absent(n)) out.push_back({hook ? Kind::Hook : Kind::Free, std::move(n), "", 0, step});
      }
    }
    if (!left) leave();
  }
}

}  // namespace zplan
