#include "io/record_reader.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/io/catalog.h"

using namespace zplan;
using nlohmann::json;

namespace {

const std::vector<RecordText>& texts() {
  static const auto read = record_texts(DiskFiles(), ZPLAN_SOURCE_DIR "/tests/truth/runs.jsonl");
  return read;
}

Record record(const std::string& id) {
  for (const RecordText& text : texts()) {
    if (text.text.find("\"id\": \"" + id + "\"") != std::string::npos) return read_record(text, catalog(), MapFiles{});
  }
  FAIL("no record " << id);
  return {};
}

// A record changed at one place by a JSON merge patch.
std::string patched(const json& patch) {
  json value = json::parse(texts().front().text);
  value.merge_patch(patch);
  return value.dump();
}

}  // namespace

TEST_CASE("all 97 measured runs can be read, without remarks on unknown keys", "[io]") {
  CHECK(texts().size() == 97);
  for (const RecordText& text : texts()) {
    INFO(text.where);
    const Record r = read_record(text, catalog(), MapFiles{});
    CHECK(r.run.gpu.id == "h200-sxm-141gb");
    CHECK(r.run.steps >= 2);
    for (const Note& note : r.notes) CHECK(note.code != "record-key-unknown");
  }
}

TEST_CASE("a record gives every input of its run", "[io]") {
  const Record a01 = record("a01");
  CHECK(a01.run.model.name == "Qwen3-0.6B");
  CHECK(a01.run.world_size == 2);
  CHECK(a01.run.workload.seq_len == 1024);
  CHECK(a01.run.ds.train_micro_batch_size_per_gpu == 2);
  CHECK(a01.run.ds.precision == Precision::Bf16);
  CHECK(a01.run.ds.zero.stage == 0);
  CHECK(a01.run.ds.zero.overlap_comm);
  CHECK(a01.run.ds.zero.reduce_bucket_size == 200'000'000);
  CHECK_FALSE(a01.run.versions.switches.overflow_check_scalar);  // the record says so
  CHECK(a01.run.versions.switches.bf16_overflow_check);
  CHECK(a01.run.steps == 3);
  CHECK(a01.ranks == Record::Ranks::Fake);
  CHECK(a01.outcome == Record::Outcome::Ok);
  CHECK(a01.optimizer_classes == "FP16_Optimizer/FusedAdam");
  CHECK(a01.phases.front().phase == "start");
  CHECK(a01.phases[3].phase == "forward");
  CHECK(a01.phases[3].step == 0);
  CHECK_FALSE(a01.machine);
}

TEST_CASE("runs with unusual inputs", "[io]") {
  std::size_t oom = 0, qlora = 0, eight_bit = 0, fused = 0, eager = 0, cut = 0, hpz = 0, expandable = 0, eval = 0, timed = 0;
  std::size_t old_version = 0, limited = 0;
  for (const RecordText& text : texts()) {
    const Record r = read_record(text, catalog(), MapFiles{});
    if (r.outcome == Record::Outcome::OutOfMemory) {
      ++oom;
      CHECK(r.oom_message.rfind("CUDA out of memory", 0) == 0);
      CHECK(r.run.steps == 3);
    }
    qlora += r.run.workload.finetune == Finetune::Qlora;
    eight_bit += r.run.workload.optimizer == OptimizerKind::Adam8bit;
    fused += r.run.workload.kernels.fused_linear_cross_entropy;
    eager += r.run.workload.attention == Attention::Eager;
    cut += r.run.model.layers == 6;
    hpz += r.run.ds.zero.zero_hpz_partition_size == 2;
    expandable += r.run.alloc_conf == "expandable_segments:True";
    eval += r.run.workload.eval_after;
    timed += !r.loop_step_seconds.empty();
    limited += r.run.capacity_limit.has_value();
    if (r.run.versions.deepspeed == Version{0, 16, 9}) {
      ++old_version;
      CHECK_FALSE(r.run.ds.bf16_check_grad_overflow);
      CHECK(r.run.ds.bf16_immediate_grad_update);
    }
    if (r.machine) CHECK(r.machine->node.interconnect == Interconnect::NvLink);
  }
  CHECK(oom == 3);
  CHECK(qlora == 2);
  CHECK(eight_bit == 1);
  CHECK(fused == 11);
  CHECK(eager == 1);
  CHECK(cut == 3);
  CHECK(hpz == 1);
  CHECK(expandable == 9);
  CHECK(eval == 1);
  CHECK(timed == 28);
  CHECK(limited == 14);
  CHECK(old_version == 2);
}

TEST_CASE("records that contradict themselves are refused", "[io]") {
  const auto [name, patch, error] = GENERATE(table<const char*, json, const char*>({
      {"rank", {{"rank", 2}}, "r.json:/rank: 2 is not a rank of 2\n  fix: ranks count from 0"},
      {"batch", {{"workload", {{"micro_batch", 4}}}},
       "r.json:/workload/micro_batch: 4, but the ds_config says 2\n  fix: correct one of the two"},
      {"precision", {{"workload", {{"precision", "fp16"}}}},
       "r.json:/workload/precision: fp16, but the ds_config says bf16\n  fix: correct one of the two"},
      {"auto left", {{"ds_config", {{"zero_optimization", {{"reduce_bucket_size", "auto"}}}}}},
       "r.json:/ds_config/zero_optimization/reduce_bucket_size: \"auto\" is not resolved: only the Hugging Face Trainer "
       "and accelerate do that\n  fix: write the value"},
      {"bad zero key", {{"ds_config", {{"zero_optimization", {{"overlap_com", true}}}}}},
       "r.json:/ds_config/zero_optimization/overlap_com: unknown key\n  fix: did you mean overlap_comm?"},
      {"unknown card", {{"versions", {{"gpu", "NVIDIA H201"}}}},
       "r.json:/versions/gpu: unknown GPU 'NVIDIA H201'\n  fix: `zplan gpus` lists those known by name; describe any "
       "other in a hardware file"},
      {"attention", {{"workload", {{"attention", "xformers"}}}},
       "r.json:/workload/attention: 'xformers' is none of the choices\n"
       "  fix: write sdpa, flash, eager or flash_attention_2"},
      {"schema", {{"schema", "zplan.plan/1"}},
       "r.json:/schema: 'zplan.plan/1' is not a measurement record\n  fix: name a file of zplan.measurement/1"},
      {"negative bytes", {{"phases", {{{"phase", "load"}, {"allocated_bytes", -1}}}}},
       "r.json:/phases/0/allocated_bytes: expected an integer of 0 or more, found -1\n"
       "  fix: write an integer of 0 or more"},
  }));
  INFO(name);
  CHECK(error_text([patch = patch] { read_record({"r.json", patched(patch)}, catalog(), MapFiles{}); }) == error);
}

TEST_CASE("keys of later records are remarked upon, not refused", "[io]") {
  const Record r = read_record({"r.json", patched({{"workload", {{"dropout", 0.1}}}})}, catalog(), MapFiles{});
  REQUIRE(r.notes.size() == 1);
  CHECK(r.notes[0].text == "The record says \"dropout\", which zplan does not know: simulated without it.");
}

TEST_CASE("what only some records say about their workload", "[io]") {
  const Record r = read_record({"r.json", patched({{"workload", {{"parameter_groups", 2}, {"attention_mask", true},
                                {"recompute", "every-2"}, {"recompute_offload", true}, {"finetune", "freeze"},
                                {"freeze_layers", 4}, {"zero_init", false}, {"lora_dropout", 0.05},
                                {"adapter_autocast", false}, {"skipped_steps", 1}}}})},
                               catalog(), MapFiles{});
  CHECK(r.run.workload.parameter_groups == 2);
  CHECK(r.run.workload.attention_mask);
  CHECK(r.run.workload.recompute == Recompute{2, RecomputeImpl::NonReentrant, true});
  CHECK(r.run.workload.freeze_layers == 4);
  CHECK(!r.run.workload.zero_init);
  CHECK(!r.run.workload.adapter_autocast);
  CHECK(r.run.workload.lora_dropout == 0.05);
  CHECK(r.run.workload.skipped_steps == 1);
  CHECK(r.notes.empty());
}

TEST_CASE("a cut-off line of a .jsonl file is told by its number", "[io]") {
  const auto lines = record_texts(MapFiles{{"r.jsonl", "{}\n\n{\"schema\": "}}, "r.jsonl");
  REQUIRE(lines.size() == 2);
  CHECK(error_text([&] { read_record(lines[1], catalog(), MapFiles{}); }) ==
        "r.jsonl:3: the JSON text ends too early, at line 1, column 12\n"
        "  fix: the file looks cut off: copy or download it again");
}
