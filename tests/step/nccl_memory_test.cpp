// Device memory of NCCL's communicators against what the driver counted: validate/results/nccl-2xh200.json, which
// validate/deepspeed/measure_nccl.py wrote.
#include "step/nccl_memory.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "step/simulation.h"
#include "tests/catch.h"

using namespace zplan;

namespace {

using Steps = std::map<std::string, Bytes>;

// What each step added.
Steps added(const nlohmann::json& setting) {
  Steps steps;
  std::int64_t before = 0;
  for (const auto& row : setting.at("memory")) {
    const auto used = row.at(1).get<std::int64_t>();
    steps[row.at(0)] = Bytes{used - before};
    before = used;
  }
  return steps;
}

NcclChannels channels(const nlohmann::json& setting) {
  NcclChannels c;
  const auto line = setting.at("channels").at(0).get<std::string>();
  const auto of = line.rfind("channels, ", line.find(" p2p channels")) + std::string("channels, ").size();
  c.collective = std::stoll(line);
  c.point_to_point = std::stoll(line.substr(of));
  return c;
}

Gpu gpu(bool nvlink, const char* compute_capability) {
  Gpu g;
  if (nvlink) g.nvlink_gb_per_s = 300;
  g.compute_capability = compute_capability;
  return g;
}

Bytes outside(const Gpu& gpu, std::int64_t ranks) {
  Run run;
  run.gpu = gpu;
  run.world_size = ranks;
  return outside_allocator(run).nccl;
}

}  // namespace

TEST_CASE("NCCL's memory follows from its channels, to the byte, on two H200", "[step]") {
  const std::string path = GENERATE("nccl-2xh200.json", "nccl-2xh200-again.json");
  std::ifstream file(ZPLAN_SOURCE_DIR "/validate/results/" + path);
  const auto measured = nlohmann::json::parse(file);
  std::printf("%-36s %8s %6s %8s %11s %13s\n", "NCCL, MiB", "channels", "p2p", "group", "first coll.", "third group");
  for (const auto& setting : measured.at("settings")) {
    const auto name = setting.at("setting").get<std::string>();
    INFO(name);
    const Steps steps = added(setting);
    const NcclChannels c = channels(setting);
    const bool direct = !setting.at("environment").contains("NCCL_P2P_DISABLE");
    const Bytes simple = setting.at("environment").contains("NCCL_BUFFSIZE") ? MiB(1) : MiB(4);
    const Bytes ring = direct ? nccl_ring(c.collective, simple) : Bytes{};  // else in the host's memory
    CHECK(steps.at("process group") == nccl_group(c));
    CHECK(steps.at("all-reduce of 8 KiB") == kNcclLoadedAtCollective + ring);
    // Another kind or size of collective adds nothing; a further communicator its structures and connections alone.
    CHECK(steps.at("all-gather of 512 MiB") + steps.at("reduce-scatter of 512 MiB") == Bytes{});
    CHECK(steps.at("third group") == nccl_structures(c));
    CHECK(steps.at("third group, all-reduce") == ring);
    CHECK(steps.at("third group, all-gather") == Bytes{});
    const auto mib = [](Bytes b) { return static_cast<int>(b.count >> 20); };
    std::printf("%-36s %8d %6d %8d %11d %6d + %3d\n", name.c_str(), static_cast<int>(c.collective),
                static_cast<int>(c.point_to_point), mib(steps.at("process group")), mib(steps.at("all-reduce of 8 KiB")),
                mib(steps.at("third group")), mib(steps.at("third group, all-reduce")));
    // Three structures a channel and two a communicator; three communicators were made.
    std::int64_t structures = 0;
    for (const auto& a : setting.at("allocations")) structures += a.at(2).get<std::int64_t>();
    CHECK(kNcclGranule * structures == nccl_structures(c) * 3);
  }
}

TEST_CASE("a communicator's memory by kind of link", "[step]") {
  struct Row {
    const char* name;
    Gpu gpu;
    std::int64_t ranks;
    Bytes expected;
  };
  Gpu few = gpu(true, "9.0");
  few.nccl_channels = {8, 8};
  const Row rows[] = {
      {"one rank talks to nobody", gpu(true, "9.0"), 1, {}},
      {"H200, two and four ranks alike: 383,778,816 and 497,025,024", gpu(true, "9.0"), 2, Bytes{383'778'816 + 497'025'024}},
      {"H200, four ranks", gpu(true, "9.0"), 4, MiB(840)},
      {"eight ranks, NVLS", gpu(true, "9.0"), 8, MiB(840 + 256)},
      {"as the GPU's file has it", few, 2, MiB(222 + 282)},
      {"NVIDIA/nccl issue 964, two of four A100", gpu(true, "8.0"), 2, MiB(544)},
      {"NVIDIA/nccl issue 964, four A100", gpu(true, "8.0"), 4, MiB(688)},
      {"without NVLink: four channels, buffers on the device", gpu(false, "8.9"), 2, MiB(198 + 186 + 48)},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(outside(row.gpu, row.ranks) == row.expected);
  }
}
