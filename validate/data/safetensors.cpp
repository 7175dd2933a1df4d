// safetensors: eight bytes of header length, a JSON header {name: {dtype, shape, data_offsets}},
// then the data.
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/mapped_file.h"
#include "data/weights.h"
#include "spec/error.h"

namespace zplan::trainer {
namespace {

using nlohmann::json;

at::ScalarType type_of(const std::string& dtype, const std::string& where) {
  if (dtype == "BF16") return at::kBFloat16;
  if (dtype == "F16") return at::kHalf;
  if (dtype == "F32") return at::kFloat;
  throw InputError(where, "dtype " + dtype + " is not a dtype of weights",
                   "convert the checkpoint to BF16, F16 or F32");
}

class Safetensors final : public WeightSource {
 public:
  explicit Safetensors(const std::string& folder) : folder_(folder) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".safetensors") read(entry.path().string());
    }
    if (tensors_.empty()) {
      throw InputError(folder, "holds no .safetensors file",
                       "give the folder of a Hugging Face checkpoint");
    }
  }

  at::Tensor value(const Parameter& p, at::ScalarType type, at::Device device) const override {
    const auto at = tensors_.find(p.name);
    if (at == tensors_.end()) {
      throw InputError(folder_, "has no tensor " + p.name, "give the checkpoint of this model");
    }
    const at::Tensor& stored = at->second;
    if (stored.sizes() != at::IntArrayRef(p.shape)) {
      throw InputError(folder_, "tensor " + p.name + " has another shape than the model",
                       "give the checkpoint of this model");
    }
    const at::Tensor placed = stored.to(device).to(type);
    return placed.data_ptr() == stored.data_ptr() ? stored.clone() : placed;
  }

 private:
  void read(const std::string& path) {
    files_.push_back(std::make_unique<MappedFile>(path));
    const MappedFile& file = *files_.back();
    std::uint64_t length = 0;
    if (file.size() >= 8) std::memcpy(&length, file.data(), 8);
    if (length == 0 || length > file.size() - 8) {
      throw InputError(path, "its header is cut off", "download the checkpoint again");
    }
    const std::size_t begin = 8 + static_cast<std::size_t>(length);
    const json header =
        json::parse(file.data() + 8, file.data() + begin, nullptr, /*allow_exceptions=*/false);
    if (!header.is_object())
      throw InputError(path, "its header is not JSON", "download the checkpoint again");
    for (const auto& [name, entry] : header.items()) {
      if (name != "__metadata__") add(path, name, entry, file, begin);
    }
  }

  void add(const std::string& path, const std::string& name, const json& entry,
           const MappedFile& file, std::size_t begin) {
    const std::string where = path + ":" + name;
    try {
      const at::ScalarType type = type_of(entry.at("dtype").get<std::string>(), where);
      const auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
      const auto from = entry.at("data_offsets").at(0).get<std::size_t>();
      const auto to = entry.at("data_offsets").at(1).get<std::size_t>();
      std::size_t bytes = c10::elementSize(type);
      for (const std::int64_t n : shape) bytes *= static_cast<std::size_t>(n);
      if (from > to || to - from != bytes || to > file.size() - begin) {
        throw InputError(where, "its data lie outside the file", "download the checkpoint again");
      }
      // Never written to: value() copies.
      tensors_[name] = at::from_blob(const_cast<unsigned char*>(file.data() + begin + from), shape,
                                     at::TensorOptions().dtype(type));
    } catch (const json::exception& e) {
      throw InputError(where, std::string("its entry cannot be read: ") + e.what(),
                       "download the checkpoint again");
    }
  }

  std::string folder_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::map<std::string, at::Tensor> tensors_;
};

}  // namespace

std::unique_ptr<WeightSource> safetensors_weights(const std::string& folder) {
  return std::make_unique<Safetensors>(folder);
}

}  // namespace zplan::trainer
