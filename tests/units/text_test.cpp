#include "units/text.h"

#include "tests/catch.h"

using namespace zplan;

TEST_CASE("bytes are printed in binary units with the unit named", "[units]") {
  const auto [bytes, expected] = GENERATE(table<Bytes, std::string>({
      {Bytes{0}, "0.0 GiB"},
      {Bytes{512}, "512 bytes"},
      {MiB(80), "0.1 GiB"},
      {MiB(40), "40.0 MiB"},
      {GiB(40), "40.0 GiB"},
      {Bytes{39'286'079'488}, "36.6 GiB"},
  }));
  CHECK(text(bytes) == expected);
}

TEST_CASE("counts are grouped by thousands", "[units]") {
  CHECK(text_grouped(8'190'735'360) == "8,190,735,360");
  CHECK(text_grouped(-1234) == "-1,234");
  CHECK(text_grouped(12) == "12");
}
