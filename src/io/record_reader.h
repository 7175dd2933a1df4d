// Measured runs from disk: zplan.measurement/1, one JSON object a file or one a line (.jsonl).
#pragma once

#include <string>
#include <vector>

#include "io/catalog.h"
#include "io/files.h"
#include "spec/measurement.h"

namespace zplan {

// One record not yet read, and where it stands: "runs.jsonl:3" is the third line.
struct RecordText {
  std::string where, text;
  friend bool operator==(const RecordText&, const RecordText&) = default;
};

// A file whose name ends in .jsonl holds a record a line (empty lines do not count); any other holds one.
std::vector<RecordText> record_texts(const FileSource& files, const std::string& path);

// The record's id, without reading the rest; empty if it has none.
std::string record_id(const RecordText& text);

// Every input resolved: the model by name with its overrides, the ds_config with the defaults of its DeepSpeed
// version, the version switches, the card. Throws InputError. What it does not know but need not know (a key of
// later records) becomes a note.
Record read_record(const RecordText& text, const Catalog& catalog, const FileSource& files);

}  // namespace zplan
