// The whole text of an input error, to compare with.
#pragma once

#include <string>

#include "spec/error.h"

template <typename Action>
std::string error_text(const Action& action) {
  try {
    action();
  } catch (const zplan::InputError& error) {
    return error.what();
  }
  return "no error";
}
