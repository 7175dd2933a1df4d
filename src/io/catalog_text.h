// What is known, for people (one screen) and for programs.
#pragma once

#include <string>

#include "io/catalog.h"

namespace zplan {

std::string models_text(const Catalog& catalog);
std::string model_text(const ModelEntry& entry);
std::string gpus_text(const Catalog& catalog);
std::string gpu_text(const GpuEntry& entry, const Catalog& catalog);
std::string node_text(const NodeEntry& entry);

// Lists of objects with the keys of the files, ended by a newline.
std::string models_json(const Catalog& catalog);
std::string model_json(const ModelEntry& entry);
std::string gpus_json(const Catalog& catalog);
std::string gpu_json(const GpuEntry& entry, const Catalog& catalog);
std::string node_json(const NodeEntry& entry);

}  // namespace zplan
