// The nearest known names for one that is not known.
#pragma once

#include <string>
#include <vector>

namespace zplan {

// Up to `most` of `known`, nearest first: those a few typing errors away from `name`, then those that hold it or begin like it.
// Case, spaces, dashes and underscores do not count.
std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& known,
                                 std::size_t most = 3);

// "a, b or c".
std::string one_of(const std::vector<std::string>& names);

// `name` in lower case without spaces, dashes and underscores: names that differ only so are the same name.
std::string name_key(const std::string& name);

}  // namespace zplan
