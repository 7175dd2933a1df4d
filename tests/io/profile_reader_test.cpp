#include "io/profile_reader.h"

#include <nlohmann/json.hpp>

#include "io/json_text.h"
#include "tests/catch.h"
#include "tests/error_text.h"

using namespace zplan;
using nlohmann::json;

namespace {

const char* const good = R"({ "schema": "zplan.profile/1", "zplan_version": "0.1.0", "gpu": "h200-sxm-141gb",
  "versions": { "deepspeed": "0.19.6", "torch": "2.11.0", "transformers": "5.17.0" },
  "coefficients": {
    "host_zero3_module": { "unit": "s", "value": 3.1e-4, "standard_error": 2e-5, "measurements": 30 },
    "host_process": { "unit": "bytes", "value": 2.2e9, "standard_error": 3e7, "measurements": 11 } } })";

// `good` with one value replaced.
std::string with(const std::string& pointer, const json& value) {
  json j = json::parse(good);
  j[json::json_pointer(pointer)] = value;
  return j.dump();
}
std::string without(const std::string& object, const std::string& key) {
  json j = json::parse(good);
  j[json::json_pointer(object)].erase(key);
  return j.dump();
}
std::string replaced(const std::string& text, const std::string& by) {
  std::string out = good;
  return out.replace(out.find(text), text.size(), by);
}

}  // namespace

TEST_CASE("a profile is read as it was written", "[io]") {
  Profile p;
  p.gpu = "h200-sxm-141gb";
  p.deepspeed = {0, 19, 6};
  p.torch = {2, 11, 0};
  p.transformers = {5, 17, 0};
  p.coefficients = {{"host_zero3_module", "s", 3.1e-4, 2e-5, 30}, {"host_process", "bytes", 2.2e9, 3e7, 11}};
  const Profile from_text = read_profile(good, "p.json");
  CHECK(from_text.gpu == p.gpu);
  CHECK(from_text.coefficients.size() == 2);
  const std::string text = json_text(profile_json(p, "0.1.0"));
  const Profile again = read_profile(text, "p.json");
  CHECK(json_text(profile_json(again, "0.1.0")).size() == text.size());
  CHECK(coefficients(again).host_zero3_module_s == coefficients(p).host_zero3_module_s);
  CHECK(process_bytes(again, 2) == process_bytes(p, 2));
}

TEST_CASE("a profile that is none is refused with its place", "[io]") {
  const std::string c = "/coefficients/host_zero3_module";
  const auto [text, error] = GENERATE_COPY(table<std::string, std::string>({
      {"", "p.json: the file is empty\n  fix: write a JSON object into it"},
      {"[]", "p.json: expected an object, found a list\n  fix: write it as { \"key\": value, ... }"},
      {with("/schema", "zplan.measurement/1"),
       "p.json:/schema: 'zplan.measurement/1' is not a profile\n  fix: name a file that zplan calibrate wrote"},
      {without("", "gpu"), "p.json:/gpu: the key is missing\n  fix: add \"gpu\""},
      {with("/gpu", 7), "p.json:/gpu: expected a string, found 7\n  fix: write a string"},
      {without("/versions", "torch"), "p.json:/versions/torch: the key is missing\n  fix: add \"torch\""},
      {with("/versions/deepspeed", "new"), "p.json:/versions/deepspeed: 'new' is not a version\n  fix: write it as 0.19.8 or 2.11"},
      {with("/host", "mine"), "p.json:/host: unknown key\n  fix: remove it"},
      {with("/coefficients", json::array()),
       "p.json:/coefficients: expected an object, found a list\n  fix: write it as { \"key\": value, ... }"},
      {with("/coefficients/host_zero3_modul", json::object()),
       "p.json:/coefficients/host_zero3_modul: there is no such coefficient\n  fix: did you mean host_zero3_module?"},
      {with(c + "/unit", "ms"), "p.json:" + c + "/unit: 'ms', but zplan counts it in 's'\n  fix: calibrate again with this zplan"},
      {with(c + "/value", -1), "p.json:" + c + "/value: expected a number of 0 or more, found -1\n  fix: write a number of 0 or more"},
      {with(c + "/value", nullptr), "p.json:" + c + "/value: the key is missing\n  fix: add \"value\""},
      {with(c + "/value", 1e300),
       "p.json:" + c + "/value: 1e+300 is not between 0.000113 and 0.00187\n  fix: calibrate again: no fit gives that"},
      {with(c + "/value", 0), "p.json:" + c + "/value: 0 is not between 0.000113 and 0.00187\n  fix: calibrate again: no fit gives that"},
      {with(c + "/standard_error", 1),
       "p.json:" + c + "/standard_error: larger than the value\n  fix: calibrate again: such a value says nothing"},
      {with(c + "/measurements", 0),
       "p.json:" + c + "/measurements: expected an integer of 1 or more, found 0\n  fix: write an integer of 1 or more"},
      {with(c + "/note", "x"), "p.json:" + c + "/note: unknown key\n  fix: remove it"},
      {replaced("\"gpu\": \"h200-sxm-141gb\"", "\"gpu\": \"a\", \"gpu\": \"b\""),
       "p.json:/gpu: the key stands twice in the same object\n  fix: remove one of the two"},
  }));
  INFO(text);
  const std::string& read = text;  // a lambda cannot hold a structured binding in Clang 14
  CHECK(error_text([&] { read_profile(read, "p.json"); }) == error);
}

TEST_CASE("a hostile profile ends in an error, not in a crash", "[io]") {
  const auto [name, text] = GENERATE(table<const char*, std::string>({
      {"a million lists", std::string(1'000'000, '[')},
      {"a million closed lists as the schema", replaced("\"zplan.profile/1\"", std::string(1'000'000, '[') + std::string(1'000'000, ']'))},
      {"not a number", replaced("3.1e-4", "NaN")},
      {"infinite", replaced("3.1e-4", "1e999")},
      {"cut off", std::string(good).substr(0, 200)},
      {"no text", std::string("\0\xff\xfe{", 4)},
      {"a name that is no UTF-8", replaced("host_process", "host\xff")},
  }));
  INFO(name);
  CHECK_THROWS_AS(read_profile(text, "p.json"), InputError);
}
