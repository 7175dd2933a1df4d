#include "io/text_table.h"

#include <algorithm>

namespace zplan {

std::size_t shown_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string table_text(const std::vector<std::pair<std::string, Align>>& heading,
                       const std::vector<std::vector<std::string>>& rows, std::size_t indent) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < heading.size(); ++c) {
    std::size_t width = shown_width(heading[c].first);
    for (const auto& row : rows) width = std::max(width, shown_width(row.at(c)));
    widths.push_back(width);
  }
  std::string text;
  const auto add = [&](const auto& cell_of) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < heading.size(); ++c) {
      const std::string cell = cell_of(c);
      const std::string pad(widths[c] - shown_width(cell), ' ');
      line += (c > 0 ? "  " : "") + (heading[c].second == Align::Right ? pad + cell : cell + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  const bool headed = std::any_of(heading.begin(), heading.end(), [](const auto& h) { return !h.first.empty(); });
  if (headed) add([&](std::size_t c) { return heading[c].first; });
  for (const auto& row : rows) add([&](std::size_t c) { return row[c]; });
  return text;
}

}  // namespace zplan
