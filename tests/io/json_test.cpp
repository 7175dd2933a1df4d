#include "io/json.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/error_text.h"

using namespace zplan;

TEST_CASE("text that is not a JSON object is refused with its place", "[io]") {
  const auto [name, text, error] = GENERATE(table<const char*, const char*, const char*>({
      {"cut off in an object", "{\"a\": 1,\n \"b\": ",
       "f.json: the JSON text ends too early, at line 2, column 7\n"
       "  fix: the file looks cut off: copy or download it again"},
      {"cut off in a string", "{\"a\": \"bc",
       "f.json: the JSON text ends too early, at line 1, column 10\n"
       "  fix: the file looks cut off: copy or download it again"},
      {"empty", " \n", "f.json: the file is empty\n  fix: write a JSON object into it"},
      {"key twice", "{\"a\": {\"b\": 1, \"c\": 2, \"b\": 3}}",
       "f.json:/a/b: the key stands twice in the same object\n  fix: remove one of the two"},
      {"a list", "[1]", "f.json: expected an object, found a list\n  fix: write it as { \"key\": value, ... }"},
  }));
  INFO(name);
  CHECK(error_text([text = text] { const auto value = parse_json(text, "f.json"); JsonObject(value, "f.json"); }) == error);
}

TEST_CASE("a syntax error is told with line and column", "[io]") {
  const std::string error = error_text([] { parse_json("{\n  \"a\": tru,\n}", "f.json"); });
  CHECK(error.rfind("f.json: not valid JSON at line 2, column 11: ", 0) == 0);
}

TEST_CASE("comments are read where they are allowed", "[io]") {
  const char* text = "{ // why\n \"a\": 1 /* one */ }";
  CHECK(parse_json(text, "f.json", Comments::Skipped).at("a") == 1);
  CHECK(error_text([&] { parse_json(text, "f.json"); }) != "no error");
}

TEST_CASE("values of the wrong type, missing and unknown keys are refused at their pointer", "[io]") {
  const auto [name, text, read, error] =
      GENERATE(table<const char*, const char*, void (*)(const JsonObject&), const char*>({
          {"missing", "{}", [](const JsonObject& o) { o.count("n"); },
           "f.json:/n: the key is missing\n  fix: add \"n\""},
          {"null is absent", "{\"n\": null}", [](const JsonObject& o) { o.count("n"); },
           "f.json:/n: the key is missing\n  fix: add \"n\""},
          {"negative", "{\"n\": -1}", [](const JsonObject& o) { o.count("n"); },
           "f.json:/n: expected an integer of 0 or more, found -1\n  fix: write an integer of 0 or more"},
          {"zero where one is needed", "{\"n\": 0}", [](const JsonObject& o) { o.positive("n"); },
           "f.json:/n: expected an integer of 1 or more, found 0\n  fix: write an integer of 1 or more"},
          {"half", "{\"n\": 2.5}", [](const JsonObject& o) { o.count("n"); },
           "f.json:/n: expected an integer of 0 or more, found 2.5\n  fix: write an integer of 0 or more"},
          {"text", "{\"n\": \"4\"}", [](const JsonObject& o) { o.integer("n"); },
           "f.json:/n: expected an integer, found \"4\"\n  fix: write an integer"},
          {"negative size", "{\"x\": -0.5}", [](const JsonObject& o) { o.number("x"); },
           "f.json:/x: expected a number of 0 or more, found -0.5\n  fix: write a number of 0 or more"},
          {"no flag", "{\"b\": 1}", [](const JsonObject& o) { o.flag("b"); },
           "f.json:/b: expected true or false, found 1\n  fix: write true or false"},
          {"unknown, with a near one", "{\"memroy_gib\": 1}",
           [](const JsonObject& o) { o.number_or("memory_gib", 0); o.finish(); },
           "f.json:/memroy_gib: unknown key\n  fix: did you mean memory_gib?"},
          {"unknown, like nothing", "{\"colour\": 1}", [](const JsonObject& o) { o.count_or("n", 0); o.finish(); },
           "f.json:/colour: unknown key\n  fix: remove it"},
          {"inside", "{\"a/b\": {\"n\": true}}", [](const JsonObject& o) { o.object("a/b").count("n"); },
           "f.json:/a~1b/n: expected an integer of 0 or more, found true\n  fix: write an integer of 0 or more"},
          {"in a list", "{\"l\": [{\"n\": 1}, {}]}", [](const JsonObject& o) { o.objects("l").at(1).count("n"); },
           "f.json:/l/1/n: the key is missing\n  fix: add \"n\""},
      }));
  INFO(name);
  const auto value = parse_json(text, "f.json");
  const JsonObject object(value, "f.json");
  CHECK(error_text([&, read = read] { read(object); }) == error);
}

TEST_CASE("integers may be written as integral floats", "[io]") {
  const auto value = parse_json("{\"a\": 5e8, \"b\": 9007199254740992, \"c\": -3.0}", "f.json");
  const JsonObject object(value, "f.json");
  CHECK(object.count("a") == 500'000'000);
  CHECK(object.count("b") == 9'007'199'254'740'992);
  CHECK(object.integer("c") == -3);
}
