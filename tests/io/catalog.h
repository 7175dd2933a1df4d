// The project's own data, read once for all tests.
#pragma once

#include "io/catalog.h"

inline const zplan::Catalog& catalog() {
  static const zplan::Catalog read = zplan::load_catalog(zplan::DiskFiles(), ZPLAN_SOURCE_DIR);
  return read;
}
