// zplan.rates/1, as validate/deepspeed/measure_rates.py writes it: rates of one machine, kernel by kernel.
#pragma once

#include <string>

#include "io/catalog.h"
#include "plan/measured_rates.h"

namespace zplan {

// Whether the text says that it is of zplan.rates/1; false for anything that is no JSON object.
bool is_rates(const std::string& text, const std::string& file);

// Measurements that failed ({"error": ...}), or were skipped, are left out. Throws InputError.
MeasuredRates read_rates(const std::string& text, const std::string& file, const Catalog& catalog);

}  // namespace zplan
