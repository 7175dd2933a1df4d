// A stand-in for the CUDA runtime and the part of the driver that c10's caching allocator calls:
// memory is counted, not backed; streams do nothing; an event has passed unless its stream waits at
// a gate. It lets the real allocator of a torch wheel run, and be compared with, where there is no
// GPU.
#include "fake_cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <unordered_map>

struct CUstream_st {
  const std::atomic<std::uint32_t>* gate =
      nullptr;  // the last wait; earlier ones were opened before
};
struct CUevent_st {
  const std::atomic<std::uint32_t>* gate = nullptr;
};

namespace {

constexpr std::size_t kTotal = std::size_t{64} << 30;

struct Device {
  std::size_t capacity = kTotal, used = 0;
  std::mt19937_64 random{1};
  std::map<std::uint64_t, std::size_t> ranges;  // every segment and reservation, by address
  std::vector<std::pair<std::uint64_t, std::size_t>> freed;  // ranges to hand out again
  std::unordered_map<std::uint64_t, std::size_t> handles;    // physical pages
  std::uint64_t next_handle = 1;
  std::uint64_t last_range = 0;
  cudaError_t last_error = cudaSuccess;
};
Device& device() {
  static Device the_device;
  return the_device;
}
CUstream_st& legacy_stream() {
  static CUstream_st stream;
  return stream;
}
CUstream_st& of(cudaStream_t stream) { return stream ? *stream : legacy_stream(); }

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) device().last_error = error;
  return error;
}

bool is_free(std::uint64_t address, std::size_t bytes) {
  const auto next = device().ranges.lower_bound(address);
  if (next != device().ranges.end() && next->first < address + bytes) return false;
  if (next == device().ranges.begin()) return true;
  const auto previous = std::prev(next);
  return previous->first + previous->second <= address;
}

// A freed range of the size at times, else anywhere: the order of addresses is what the test
// varies.
std::uint64_t take_range(std::size_t bytes) {
  Device& d = device();
  if (d.random() % 2 == 0)
    for (std::size_t i = d.freed.size(); i-- > 0;)
      if (d.freed[i].second >= bytes && is_free(d.freed[i].first, bytes)) {
        const std::uint64_t address = d.freed[i].first;
        d.freed.erase(d.freed.begin() + static_cast<std::ptrdiff_t>(i));
        d.ranges[address] = bytes;
        return d.last_range = address;
      }
  for (;;) {
    const std::uint64_t address = (0x100000000000 + d.random() % 0x600000000000) >> 21 << 21;
    if (!is_free(address, bytes)) continue;
    d.ranges[address] = bytes;
    return d.last_range = address;
  }
}
void give_range(std::uint64_t address) {
  Device& d = device();
  const auto range = d.ranges.find(address);
  if (d.freed.size() > 64) d.freed.erase(d.freed.begin());
  d.freed.emplace_back(*range);
  d.ranges.erase(range);
}

CUresult address_reserve(CUdeviceptr* out, std::size_t size, std::size_t, CUdeviceptr,
                         unsigned long long) {
  *out = take_range(size);
  return CUDA_SUCCESS;
}
CUresult address_free(CUdeviceptr address, std::size_t) {
  give_range(address);
  return CUDA_SUCCESS;
}
CUresult mem_create(CUmemGenericAllocationHandle* handle, std::size_t size,
                    const CUmemAllocationProp*, unsigned long long) {
  Device& d = device();
  if (d.used + size > d.capacity) return CUDA_ERROR_OUT_OF_MEMORY;
  d.used += size;
  *handle = d.next_handle++;
  d.handles[*handle] = size;
  return CUDA_SUCCESS;
}
CUresult mem_release(CUmemGenericAllocationHandle handle) {
  Device& d = device();
  d.used -= d.handles.at(handle);
  d.handles.erase(handle);
  return CUDA_SUCCESS;
}
CUresult mem_map(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle,
                 unsigned long long) {
  return CUDA_SUCCESS;
}
CUresult mem_unmap(CUdeviceptr, std::size_t) { return CUDA_SUCCESS; }
CUresult set_access(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) {
  return CUDA_SUCCESS;
}
CUresult granularity(std::size_t* out, const CUmemAllocationProp*,
                     CUmemAllocationGranularity_flags) {
  *out = 2 << 20;
  return CUDA_SUCCESS;
}
CUresult device_get(CUdevice* out, int ordinal) {
  *out = ordinal;
  return CUDA_SUCCESS;
}
CUresult device_attribute(int* out, CUdevice_attribute, CUdevice) {
  *out = 0;  // no fabric, no RDMA: plain handles
  return CUDA_SUCCESS;
}
CUresult error_string(CUresult, const char** text) {
  *text = "fake";
  return CUDA_SUCCESS;
}
CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t, unsigned int) {
  of(stream).gate = reinterpret_cast<const std::atomic<std::uint32_t>*>(address);
  return CUDA_SUCCESS;
}
CUresult not_supported() { return CUDA_ERROR_NOT_SUPPORTED; }

template <class Function>
void* address_of(Function function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

namespace zplan::fake_cuda {
std::size_t total() { return kTotal; }
void set_capacity(std::size_t bytes) { device().capacity = std::min(bytes, kTotal); }
void set_seed(std::uint64_t seed) { device().random.seed(seed); }
std::uint64_t last_range() { return device().last_range; }
}  // namespace zplan::fake_cuda

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  static const std::unordered_map<std::string, void*> known = {
      {"cuDeviceGet", address_of(device_get)},
      {"cuDeviceGetAttribute", address_of(device_attribute)},
      {"cuMemAddressReserve", address_of(address_reserve)},
      {"cuMemAddressFree", address_of(address_free)},
      {"cuMemCreate", address_of(mem_create)},
      {"cuMemRelease", address_of(mem_release)},
      {"cuMemMap", address_of(mem_map)},
      {"cuMemUnmap", address_of(mem_unmap)},
      {"cuMemSetAccess", address_of(set_access)},
      {"cuMemGetAllocationGranularity", address_of(granularity)},
      {"cuGetErrorString", address_of(error_string)},
      {"cuStreamWaitValue32", address_of(wait_value)},
  };
  const auto found = known.find(symbol);
  *function = found == known.end() ? address_of(not_supported) : found->second;
  if (status) *status = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  Device& d = device();
  if (d.used + bytes > d.capacity) return result(cudaErrorMemoryAllocation);
  d.used += bytes;
  *pointer = reinterpret_cast<void*>(take_range(bytes));
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) {
  if (!pointer) return cudaSuccess;  // "make a context"
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  device().used -= device().ranges.at(address);
  give_range(address);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = device().capacity - device().used;
  *total = kTotal;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = cudaDeviceProp{};
  std::strcpy(properties->name, "stand-in");
  properties->major = 9;
  properties->totalGlobalMem = kTotal;
  return cudaSuccess;
}

// The same calls under the names that CUDA 12 gave them.
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "stand-in");
  properties->totalGlobalMem = kTotal;  // what comes after it lies elsewhere in CUDA 12
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, 12000, flags, status);
}
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t, cudaStreamCaptureStatus* status,
                                        unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                        size_t*) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int) {
  *pointer = new char[bytes]();
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** out, void* pointer, unsigned int) {
  *out = pointer;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, size_t*) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->gate = of(stream).gate;
  return cudaSuccess;
}
// An event behind a closed gate has not passed. Not an error that stays: cudaGetLastError() forgets
// it.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const bool passed = !event->gate || event->gate->load() != 0;
  return passed ? cudaSuccess : result(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }

cudaError_t cudaGetLastError() {
  const cudaError_t error = device().last_error;
  device().last_error = cudaSuccess;
  return error;
}
const char* cudaGetErrorName(cudaError_t) { return "fake"; }
const char* cudaGetErrorString(cudaError_t) { return "fake"; }

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* out) {
  *out = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

}  // extern "C"
