#include "step/row_text.h"

#include <cctype>
#include <sstream>

namespace zplan {

void replace_all(std::string& cell, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = cell.find(from, at)) != std::string::npos; at += to.size()) cell.replace(at, from.size(), to);
}

void replace_word(std::string& cell, std::string_view from, std::string_view to) {
  const auto inside = [&](std::size_t at) {
    return at < cell.size() && (std::isalnum(static_cast<unsigned char>(cell[at])) != 0 || cell[at] == '.');
  };
  for (std::size_t at = 0; (at = cell.find(from, at)) != std::string::npos;) {
    const bool whole = (at == 0 || !inside(at - 1)) && !inside(at + from.size());
    if (whole) cell.replace(at, from.size(), to);
    at += whole ? to.size() : from.size();
  }
}

void erase_last(std::string& cell, std::string_view text) {
  const auto at = cell.rfind(text);
  if (at != std::string::npos) cell.erase(at, text.size());
}

void rename_freed(std::string& frees, std::string_view from, std::string_view to) {
  std::istringstream words(frees);
  std::string out, word;
  while (words >> word) {
    if (word == from) word = to;
    if (!word.empty()) out += (out.empty() ? "" : " ") + word;
  }
  frees = out;
}

}  // namespace zplan
