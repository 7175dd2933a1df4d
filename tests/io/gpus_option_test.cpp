#include "io/gpus_option.h"

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/io/catalog.h"

using namespace zplan;

TEST_CASE("--gpus says card, count and nodes", "[io]") {
  struct Expected {
    const char* gpu;
    std::int64_t nodes, gpus;
    Interconnect interconnect;
  };
  const auto [text, expected] = GENERATE(table<const char*, Expected>({
      {"4xA100-40G", {"a100-sxm4-40gb", 1, 4, Interconnect::NvLink}},
      {"4 x a100 40gb", {nullptr, 0, 0, Interconnect::Pcie}},
      {"8xH100", {"h100-sxm5-80gb", 1, 8, Interconnect::NvLink}},
      {"2x8xH100-80G", {"h100-sxm5-80gb", 2, 8, Interconnect::NvLink}},
      {"64xH100", {"h100-sxm5-80gb", 8, 8, Interconnect::NvLink}},
      {"1xRTX4090", {"rtx-4090", 1, 1, Interconnect::Pcie}},
      {"H200", {"h200-sxm-141gb", 1, 1, Interconnect::NvLink}},
      {"2xNVIDIA H200", {"h200-sxm-141gb", 1, 2, Interconnect::NvLink}},
      {"8xL40S", {"l40s", 1, 8, Interconnect::Pcie}},
      {"dgx-h100", {"h100-sxm5-80gb", 1, 8, Interconnect::NvLink}},
      {"2xaws-p4d-24xlarge", {"a100-sxm4-40gb", 2, 8, Interconnect::NvLink}},
  }));
  INFO(text);
  if (expected.gpu == nullptr) {
    CHECK(error_text([text = text] { parse_gpus(text, catalog(), MapFiles{}); }) != "no error");
    return;
  }
  const Cluster cluster = parse_gpus(text, catalog(), MapFiles{}).cluster;
  CHECK(cluster.node.gpu.id == expected.gpu);
  CHECK(cluster.nodes == expected.nodes);
  CHECK(cluster.node.gpus == expected.gpus);
  CHECK(cluster.node.interconnect == expected.interconnect);
}

TEST_CASE("the machine around bare GPUs is a known one, and a note says which", "[io]") {
  const auto of = [](const char* text) { return parse_gpus(text, catalog(), MapFiles{}); };
  // Two machines with four A100-40G are known; the one with less memory is taken.
  const ClusterRead four = of("4xA100-40G");
  CHECK(four.cluster.node.host_memory == GiB(340));
  REQUIRE(four.notes.size() == 1);
  CHECK(four.notes[0].code == "node-assumed");
  CHECK(four.notes[0].text == "The machine is assumed to be GCP a2-highgpu-4g: NVLink, 340 GiB of host memory.");
  // No machine with three is known: three quarters of one with four.
  const ClusterRead three = of("3xA100-40G");
  CHECK(three.cluster.node.host_memory == GiB(255));
  CHECK(three.notes[0].text ==
        "The machine is assumed to be a share of GCP a2-highgpu-4g: NVLink, 255 GiB of host memory.");
  const ClusterRead none = of("2xV100-PCIE-32G");
  CHECK(none.notes[0].code == "node-unknown");
  CHECK_FALSE(none.cluster.node.host_memory);
  // A machine that is named is not assumed.
  CHECK(of("dgx-h100").notes.empty());
}

TEST_CASE("a hardware file describes any machine", "[io]") {
  const char* text = R"({"gpu": "A100-80G", "gpus": 4, "nodes": 2, "interconnect": "nvlink", "host_memory_gib": 512,
                         "vcpus": 64, "network_gbit_per_s": 200, "nvme_gb": 3840, "source": "our cluster"})";
  const Cluster cluster = parse_gpus("mine.json", catalog(), MapFiles{{"mine.json", text}}).cluster;
  CHECK(cluster.world_size() == 8);
  CHECK(cluster.node.gpu.name == "A100-SXM4-80GB");
  CHECK(cluster.node.host_memory == GiB(512));
  CHECK(cluster.node.cpu_cores == 32);
  CHECK(cluster.node.network_gb_per_s == 25.0);
  CHECK(cluster.node.nvme == Bytes{3'840'000'000'000});
}

TEST_CASE("GPUs that cannot be meant are refused", "[io]") {
  const MapFiles files{{"bad.json", R"({"gpu": "A100-40G", "gpus": 4, "interconnect": "nvlink", "host_memory": 512})"},
                        {"neg.json", R"({"gpu": "A100-40G", "gpus": 4, "interconnect": "nvlink", "host_memory_gib": -1})"},
                        {"typo.json", R"({"gpu": "A10O-40G", "gpus": 4})"}};
  const auto [text, error] = GENERATE(table<const char*, const char*>({
      {"4xA10O",
       "--gpus: unknown GPU 'A10O'\n  fix: did you mean A10, A10G, A100-40G or A100-80G? `zplan gpus` lists those known "
       "by name; describe any other in a hardware file"},
      {"4xA100", "--gpus: 'A100' may be several GPUs\n"
                 "  fix: say which: A100-PCIE-40G, A100-PCIE-80G, A100-40G or A100-80G"},
      {"0xA100-40G", "--gpus: '0xA100-40G' is a world size of 0\n  fix: ask for at least one GPU"},
      {"2x0xA100-40G", "--gpus: '2x0xA100-40G' is a world size of 0\n  fix: ask for at least one GPU"},
      {"-4xA100-40G", "--gpus: -4 is not a number of GPUs\n"
                      "  fix: write COUNTxGPU or NODESxCOUNTxGPU, such as 4xA100-40G or 2x8xH100-80G"},
      {"4x", "--gpus: '4x' does not say which GPUs\n"
             "  fix: write COUNTxGPU or NODESxCOUNTxGPU, such as 4xA100-40G or 2x8xH100-80G"},
      {"99999999xH100", "--gpus: 99999999 is too large a number\n"
                        "  fix: write COUNTxGPU or NODESxCOUNTxGPU, such as 4xA100-40G or 2x8xH100-80G"},
      {"none.json", "none.json: there is no such file\n  fix: check the path"},
      {"bad.json", "bad.json:/host_memory: unknown key\n  fix: did you mean host_memory_gib?"},
      {"neg.json", "neg.json:/host_memory_gib: expected a number of 0 or more, found -1\n"
                   "  fix: write a number of 0 or more"},
      {"typo.json", "typo.json:/interconnect: the key is missing\n  fix: add \"interconnect\""},
  }));
  INFO(text);
  CHECK(error_text([&, text = text] { parse_gpus(text, catalog(), files); }) == error);
}
