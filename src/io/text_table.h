// Columns of text, each as wide as its widest cell.
#pragma once

#include <string>
#include <vector>

namespace zplan {

enum class Align { Left, Right };

// Rows under a heading; two spaces between columns, no space at the end of a line. `indent` spaces before each.
std::string table_text(const std::vector<std::pair<std::string, Align>>& heading,
                       const std::vector<std::vector<std::string>>& rows, std::size_t indent = 0);

// The number of characters a terminal shows: UTF-8 continuation bytes do not count.
std::size_t shown_width(const std::string& text);

}  // namespace zplan
