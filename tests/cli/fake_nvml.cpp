// NVML as far as zplan calls it, with GPUs from the text file that ZPLAN_FAKE_NVML names, read anew at every call:
//   driver 510            releases before 510 have neither the second memory call nor the third process call
//   gpu NAME CAPACITY RESERVED USED      (MiB; RESERVED: what the driver keeps)
//   process GPU PID USED                 (MiB; -1: not said)
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Process {
  unsigned pid;
  long long used;
};
struct Gpu {
  std::string name;
  long long capacity = 0, reserved = 0, used = 0;
  std::vector<Process> processes;
};
struct Machine {
  int driver = 510;
  std::vector<Gpu> gpus;
};

Machine machine() {
  Machine m;
  const char* path = std::getenv("ZPLAN_FAKE_NVML");
  std::ifstream file(path != nullptr ? path : "");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "driver") {
      words >> m.driver;
    } else if (what == "gpu") {
      Gpu g;
      words >> g.name >> g.capacity >> g.reserved >> g.used;
      for (char& c : g.name) c = c == '_' ? ' ' : c;
      m.gpus.push_back(g);
    } else if (what == "process") {
      std::size_t gpu = 0;
      Process p{};
      words >> gpu >> p.pid >> p.used;
      m.gpus.at(gpu).processes.push_back(p);
    }
  }
  return m;
}

// A handle is the GPU's number plus one: a null pointer is none.
const Gpu* find(const Machine& m, void* device) {
  const auto index = reinterpret_cast<std::size_t>(device) - 1;
  return index < m.gpus.size() ? &m.gpus[index] : nullptr;
}

unsigned long long bytes(long long mib) { return static_cast<unsigned long long>(mib) << 20U; }

constexpr int kSuccess = 0, kInvalid = 2, kNotSupported = 3, kInsufficientSize = 7, kVersionMismatch = 25;

int text(const std::string& value, char* out, unsigned size) {
  if (value.size() >= size) return kInsufficientSize;
  std::strcpy(out, value.c_str());
  return kSuccess;
}

// The structures of nvml.h.
struct MemoryV1 {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct ProcessV1 {
  unsigned pid;
  unsigned long long used;
};
struct ProcessV2 {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

template <typename Info>
int processes(void* device, unsigned* count, Info* infos) {
  const Machine m = machine();
  const Gpu* g = find(m, device);
  if (g == nullptr) return kInvalid;
  const auto room = *count;
  *count = static_cast<unsigned>(g->processes.size());
  if (room < *count) return kInsufficientSize;
  for (std::size_t i = 0; i < g->processes.size(); ++i) {
    infos[i] = Info{};
    infos[i].pid = g->processes[i].pid;
    infos[i].used = g->processes[i].used < 0 ? ~0ULL : bytes(g->processes[i].used);
  }
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(machine().gpus.size());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= machine().gpus.size()) return kInvalid;
  *device = reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1);
  return kSuccess;
}
int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  const Machine m = machine();
  const Gpu* g = find(m, device);
  return g != nullptr ? text(g->name, name, size) : kInvalid;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  return text("GPU-" + std::to_string(reinterpret_cast<std::size_t>(device) - 1), uuid, size);
}
int nvmlDeviceGetMemoryInfo_v2(void* device, MemoryV2* memory) {
  const Machine m = machine();
  const Gpu* g = find(m, device);
  if (g == nullptr) return kInvalid;
  if (m.driver < 510) return kNotSupported;
  if (memory->version != (sizeof(MemoryV2) | (2U << 24U))) return kVersionMismatch;
  memory->total = bytes(g->capacity + g->reserved);
  memory->reserved = bytes(g->reserved);
  memory->used = bytes(g->used);
  memory->free = memory->total - memory->reserved - memory->used;
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void* device, MemoryV1* memory) {
  const Machine m = machine();
  const Gpu* g = find(m, device);
  if (g == nullptr) return kInvalid;
  *memory = {bytes(g->capacity + g->reserved), bytes(g->capacity - g->used), bytes(g->used + g->reserved)};
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessV2* infos) {
  return machine().driver < 510 ? kNotSupported : processes(device, count, infos);
}
int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, ProcessV1* infos) {
  return processes(device, count, infos);
}
}
