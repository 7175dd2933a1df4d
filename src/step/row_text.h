// Edits of a row's cells: the texts of an event table name blocks ("h1", "q.y"), with their sizes where they are allocated.
#pragma once

#include <string>
#include <string_view>

namespace zplan {

// Every occurrence, inside of names too.
void replace_all(std::string& cell, std::string_view from, std::string_view to);
// Every whole name: what is left and right of it is no letter, digit or point.
void replace_word(std::string& cell, std::string_view from, std::string_view to);
// The last occurrence of a text.
void erase_last(std::string& cell, std::string_view text);
// A block's name among those a row frees, which spaces part; without `to` it is not freed there.
void rename_freed(std::string& frees, std::string_view from, std::string_view to = "");

}  // namespace zplan
