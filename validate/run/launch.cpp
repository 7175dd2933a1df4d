#include "run/launch.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "spec/error.h"

namespace zplan::trainer {
namespace {

struct Launcher {
  const char *name, *rank, *world, *local_rank, *local_world;
};
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
};

int number(const Environment& environment, const char* name,
           std::optional<int> fallback = std::nullopt) {
  const char* text = environment(name);
  if (!text && fallback) return *fallback;
  char* end = nullptr;
  const long value = text ? std::strtol(text, &end, 10) : -1;
  if (!text || *text == '\0' || *end != '\0' || value < 0) {
    throw InputError(name, std::string("'") + (text ? text : "") + "' is not a count",
                     "start the ranks with one launcher");
  }
  return static_cast<int>(value);
}

}  // namespace

std::optional<Launched> launched(const Environment& environment) {
  for (const Launcher& l : kLaunchers) {
    if (!environment(l.rank) || !environment(l.world)) continue;
    Launched who;
    who.by = l.name;
    who.rank = number(environment, l.rank);
    who.world = number(environment, l.world);
    who.local_rank = number(environment, l.local_rank, 0);
    who.local_world = number(environment, l.local_world, 1);
    if (who.world < 1 || who.rank >= who.world) {
      throw InputError(l.rank,
                       std::to_string(who.rank) + " is not a rank of " + std::to_string(who.world) +
                           " (" + l.world + ")",
                       "start the ranks with one launcher");
    }
    // A shell inside a Slurm allocation has these too, with one task: that is no launch of ranks.
    if (l.name == std::string("Slurm") && who.world == 1) continue;
    return who;
  }
  return std::nullopt;
}

ShareFromRank0 share_over_tcp(const Launched& who, const Environment& environment,
                              double timeout_s) {
  const char* address = environment("MASTER_ADDR");
  if (!address || !*address) {
    throw InputError("MASTER_ADDR", "is not set, so the ranks cannot find each other",
                     "set MASTER_ADDR to the first node and MASTER_PORT to a free port; torchrun "
                     "does so itself");
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(number(environment, "MASTER_PORT", 29500));
  // torchrun's agent already serves a store on this port.
  const char* agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  options.isServer = who.rank == 0 && !(agent && std::strcmp(agent, "True") == 0);
  options.numWorkers = static_cast<std::size_t>(who.world);
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<long>(timeout_s * 1000));
  std::shared_ptr<c10d::TCPStore> store;
  try {
    store = std::make_shared<c10d::TCPStore>(address, options);
  } catch (const std::exception& e) {
    throw CollectiveError(std::string("cannot reach ") + address + ":" +
                          std::to_string(options.port) + ": " + e.what());
  }
  return [store, rank = who.rank](void* data, std::size_t bytes) {
    const std::string key = "zplan-validate/nccl-id";
    auto* begin = static_cast<std::uint8_t*>(data);
    if (rank == 0) {
      store->set(key, std::vector<std::uint8_t>(begin, begin + bytes));
      return;
    }
    const std::vector<std::uint8_t> got = store->get(key);
    if (got.size() != bytes) throw CollectiveError("another version of NCCL runs on rank 0");
    std::copy(got.begin(), got.end(), begin);
  };
}

}  // namespace zplan::trainer
