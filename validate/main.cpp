// zplan-validate: starts the ranks, or is one of them, and turns what happens into an exit code:
//   0 measured   1 out of memory   2 input error   3 a rank failed
#include <ATen/Parallel.h>
#include <c10/cuda/CUDAFunctions.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "collectives/nccl.h"
#include "collectives/process.h"
#include "collectives/stand_in.h"
#include "probe/memory_probe.h"
#include "run/arguments.h"
#include "run/launch.h"
#include "run/report.h"
#include "run/supervisor.h"
#include "run/train.h"
#include "spec/error.h"

namespace zplan::trainer {
namespace {

// CUDA's allocator reads its options once, perhaps before main: start again with them in the
// environment.
void apply_alloc_conf(const Plan& plan, char** argv) {
  if (plan.run.alloc_conf.empty()) return;
  const char* now = std::getenv("PYTORCH_CUDA_ALLOC_CONF");
  if (now && plan.run.alloc_conf == now) return;
  setenv("PYTORCH_CUDA_ALLOC_CONF", plan.run.alloc_conf.c_str(), 1);
  execv("/proc/self/exe", argv);
}

void require_gpus(const Plan& plan, int needed) {
  const int gpus = visible_gpus();
  if (gpus >= needed) return;
  const auto n = [](std::int64_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  const Run& run = plan.run;
  const std::string who = plan.stand_in ? "rank " + std::to_string(run.rank) + " of " : "";
  const std::string would = plan.model_name + ", ZeRO stage " + std::to_string(run.ds.zero.stage) +
                            ", " + n(run.workload.seq_len, "token") + ", " + who +
                            n(run.world_size, "rank") + ", " + n(run.steps, "step");
  throw InputError(
      "zplan-validate",
      "needs " + n(needed, "GPU") + ", and CUDA sees " + std::to_string(gpus) +
          "; it would have run " + would,
      gpus > 0
          ? "add --stand-in to play one rank on one GPU, or lower --world"
          : "run it on the GPU machine; --device cpu tries the program itself on a tiny model");
}

at::Device use_device(const Plan& plan, int local_rank) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (!std::getenv("OMP_NUM_THREADS")) at::set_num_threads(std::max(1, cores / plan.ranks_here));
  if (!plan.cuda) return at::kCPU;
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(local_rank));
  c10::cuda::set_device(device.index());
  at::zeros({1}, at::TensorOptions().device(
                     device));  // makes the context and the allocator, which probes ask
  return device;
}

// A failure before the rank has a record: the communicator could not be made, the device not be
// used.
template <class Body>
int guarded(RankStatus& status, Body body) {
  try {
    return body();
  } catch (const InputError& e) {
    status.say(e.what());
    return kInputError;
  } catch (const c10::Error& e) {
    status.say(e.what_without_backtrace());
  } catch (const std::exception& e) {
    status.say(e.what());
  }
  return kFailed;
}

int run_supervised(const Plan& plan, std::string& message) {
  if (plan.cuda) require_gpus(plan, plan.ranks_here);
  StatusPage page(plan.ranks_here);
  const SharedArena arena(plan.ranks_here);
  const auto body = [&](int local) {
    return guarded(page.of(local), [&] {
      Plan mine = plan;
      if (!plan.stand_in) mine.run.rank = local;
      const int size = static_cast<int>(plan.run.world_size),
                rank = static_cast<int>(mine.run.rank);
      const at::Device device = use_device(plan, local);
      std::unique_ptr<Communicator> communicator;
      if (plan.stand_in)
        communicator = stand_in_communicator(rank, size);
      else if (!plan.cuda)
        communicator = process_communicator(arena, rank, plan.timeout_s);
      else {
        communicator = nccl_communicator(rank, size, device, [&](void* data, std::size_t bytes) {
          page.share_from_rank_0(rank, data, bytes, plan.timeout_s);
        });
      }
      return run_rank(mine, {communicator.get(), &page.of(local), device, local});
    });
  };
  return supervise({plan.ranks_here, plan.out}, page, body, message);
}

int run_launched(const Plan& plan, const Launched& who, std::string& message) {
  const Environment environment = [](const char* name) { return std::getenv(name); };
  StatusPage page(1);
  RankStatus& status = page.of(0);
  const int code = guarded(status, [&] {
    Plan mine = plan;
    mine.run.rank = who.rank;
    mine.run.world_size = who.world;
    mine.ranks_here = who.local_world;
    const at::Device device = use_device(mine, who.local_rank);
    const auto communicator = nccl_communicator(who.rank, who.world, device,
                                                share_over_tcp(who, environment, plan.timeout_s));
    return run_rank(mine, {communicator.get(), &status, device, who.local_rank});
  });
  if (code != kOk)
    message = "rank " + std::to_string(who.rank) + " " + where_is(status) + ": " + status.message;
  return code;
}

int run_main(int argc, char** argv) {
  const Parsed parsed = parse_arguments(argc, argv, ZPLAN_DATA_DIR);
  if (parsed.exit) return *parsed.exit;
  const Plan& plan = parsed.plan;
  apply_alloc_conf(plan, argv);
  const auto who =
      plan.stand_in ? std::nullopt : launched([](const char* name) { return std::getenv(name); });
  std::string message;
  const int code = who ? run_launched(plan, *who, message) : run_supervised(plan, message);
  if (!message.empty()) std::fprintf(stderr, "zplan-validate: error: %s\n", message.c_str());
  const bool speaks = !who || who->rank == 0;
  if (code == kOk && speaks) {
    std::fprintf(stderr, "wrote %s\n", plan.out.c_str());
    if (plan.cuda && !plan.profile_only) std::fputs(report(plan, ZPLAN_DATA_DIR).c_str(), stdout);
  }
  return code;
}

}  // namespace
}  // namespace zplan::trainer

int main(int argc, char** argv) {
  try {
    return zplan::trainer::run_main(argc, argv);
  } catch (const zplan::InputError& e) {
    std::fprintf(stderr, "zplan-validate: error: %s\n", e.what());
    return zplan::trainer::kInputError;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "zplan-validate: error: %s\n", e.what());
    return zplan::trainer::kFailed;
  }
}
