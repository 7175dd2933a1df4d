// What the user can mend. Caught once in main(), printed as
//   zplan: error: <where>: <what>
//     fix: <fix>
// with exit code 2. A bug is an assertion; "it does not fit" is a result, not an error.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace zplan {

class InputError : public std::runtime_error {
 public:
  InputError(std::string where, std::string what, std::string fix)
      : std::runtime_error(where + ": " + what + "\n  fix: " + fix),
        where_(std::move(where)), what_(std::move(what)), fix_(std::move(fix)) {}
  const std::string& where() const { return where_; }
  const std::string& problem() const { return what_; }
  const std::string& fix() const { return fix_; }

 private:
  std::string where_, what_, fix_;
};

}  // namespace zplan
