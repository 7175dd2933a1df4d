#include "io/lower_case.h"

#include <cctype>

namespace zplan {

char lower_case(char letter) { return static_cast<char>(std::tolower(static_cast<unsigned char>(letter))); }

std::string lower_case(std::string text) {
  for (char& letter : text) letter = lower_case(letter);
  return text;
}

}  // namespace zplan
