#include "step/row_text.h"

#include "tests/catch.h"

using namespace zplan;

TEST_CASE("names in a row's cells", "[step]") {
  std::string cell = "q=2NA q.y qq k1 q";
  replace_word(cell, "q", "q.y");
  CHECK(cell == "q.y=2NA q.y qq k1 q.y");  // a name within a longer one is another
  replace_word(cell, "k", "x");
  CHECK(cell == "q.y=2NA q.y qq k1 q.y");

  cell = "a=4NkM b=4NkM";
  replace_all(cell, "=4NkM", "=8NkM");
  CHECK(cell == "a=8NkM b=8NkM");
  erase_last(cell, " b=8NkM");
  CHECK(cell == "a=8NkM");
  erase_last(cell, "absent");
  CHECK(cell == "a=8NkM");

  std::string frees = "h1 gl h1.y";
  rename_freed(frees, "gl", "g2");
  CHECK(frees == "h1 g2 h1.y");
  rename_freed(frees, "h1");
  CHECK(frees == "g2 h1.y");
}
