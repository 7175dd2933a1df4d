#include "time/coefficients.h"

#include <set>
#include <string>

#include "tests/catch.h"

using namespace zplan;

TEST_CASE("every time coefficient has a name, a unit, a source and a prior error", "[time]") {
  TimeCoefficients c;
  std::set<std::string> names;
  std::set<const Coefficient*> members;
  for (const auto& e : coefficient_table()) {
    INFO(e.name);
    CHECK(names.emplace(e.name).second);
    CHECK(members.insert(&(c.*e.member)).second);
    CHECK_FALSE(e.unit.empty());
    CHECK_FALSE(e.source.empty());
    CHECK((c.*e.member).value > 0);
    CHECK((c.*e.member).relative_error > 0);
  }
  CHECK(members.size() == sizeof(TimeCoefficients) / sizeof(Coefficient));
}
