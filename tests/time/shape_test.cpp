#include "time/shape.h"

#include "inventory/parameters.h"
#include "tests/catch.h"
#include "tests/time/machines.h"

using namespace zplan;

TEST_CASE("the counts of the time model are those of the inventory", "[time]") {
  const auto name = GENERATE(as<std::string>{}, "qwen3-0.6b", "qwen3-8b", "qwen2.5-7b", "llama-3.1-8b",
                             "qwen3-30b-a3b");
  const auto finetune = GENERATE(Finetune::Full, Finetune::Lora, Finetune::Qlora, Finetune::Freeze);
  const Model model = testing::model(name);
  Workload workload;
  workload.finetune = finetune;
  workload.freeze_layers = 5;
  INFO(name << " " << static_cast<int>(finetune));
  const auto tensors = parameters(model, workload);
  const ModelShape shape = model_shape(model, workload);
  CHECK(shape.elements == total_elements(tensors).count);
  CHECK(shape.trainable == trainable_elements(tensors).count);
  CHECK(shape.tensors == static_cast<std::int64_t>(tensors.size()));

  std::int64_t trainable = 0, quantized = 0;
  double large = 0, large_elements = 0, batches = 0;
  constexpr std::int64_t limit = 40'960, batch = 15'000'000;
  for (const auto& t : tensors) {
    trainable += t.trainable;
    quantized += t.quantized ? t.numel : 0;
    if (t.numel <= limit) continue;
    large += 1;
    large_elements += static_cast<double>(t.numel);
    batches += std::min(1.0, static_cast<double>(t.numel) / batch);
  }
  CHECK(shape.trainable_tensors == trainable);
  CHECK(shape.quantized == quantized);
  const TensorBatches b = tensor_batches(model, workload, false, limit, batch);
  CHECK(b.large_tensors == large);
  CHECK(b.large_elements == large_elements);
  CHECK(b.batches == Approx(batches));
}

TEST_CASE("modules called in a layer", "[time]") {
  Workload full, lora;
  lora.finetune = Finetune::Lora;
  CHECK(model_shape(testing::model("qwen3-8b"), full).modules_per_layer == 15);     // seven linears, four norms
  CHECK(model_shape(testing::model("llama-3.1-8b"), full).modules_per_layer == 13); // no q and k norms
  CHECK(model_shape(testing::model("qwen3-8b"), lora).modules_per_layer == 43);     // base, dropout, A, B each
}
