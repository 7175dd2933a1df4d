#include "collectives/nccl.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <mutex>

namespace zplan::trainer {
namespace {

void check_result(ncclResult_t result, const char* what, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* detail = ncclGetLastError(comm);
  throw CollectiveError(std::string("NCCL: ") + what + ": " + ncclGetErrorString(result) +
                        (detail && *detail ? std::string(" (") + detail + ")" : std::string()));
}

ncclDataType_t type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kHalf:
      return ncclFloat16;
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kLong:
      return ncclInt64;
    default:
      throw CollectiveError("NCCL: no such tensor type here: " +
                            std::string(c10::toString(tensor.scalar_type())));
  }
}

class Nccl final : public Communicator {
 public:
  Nccl(int rank, int size, at::Device device, const ShareFromRank0& share)
      : rank_(rank), size_(size), device_(device) {
    const c10::cuda::CUDAGuard guard(device);
    ncclUniqueId id{};
    if (rank == 0) check_result(ncclGetUniqueId(&id), "ncclGetUniqueId");
    share(&id, sizeof id);
    check_result(ncclCommInitRank(&comm_, size, id, rank), "ncclCommInitRank");
  }
  // After an error NCCL may wait for a peer that is gone; abort does not.
  ~Nccl() override {
    if (comm_) ncclCommAbort(comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string kind() const override { return "nccl"; }

  void all_reduce(at::Tensor t) override {
    done(ncclAllReduce(t.data_ptr(), t.data_ptr(), count(t), type_of(t), ncclSum, comm_, stream()),
         "all_reduce");
  }
  void all_gather(at::Tensor out, at::Tensor mine) override {
    done(
        ncclAllGather(mine.data_ptr(), out.data_ptr(), count(mine), type_of(mine), comm_, stream()),
        "all_gather");
  }
  void reduce_scatter(at::Tensor out, at::Tensor all) override {
    done(ncclReduceScatter(all.data_ptr(), out.data_ptr(), count(out), type_of(out), ncclSum, comm_,
                           stream()),
         "reduce_scatter");
  }
  void broadcast(at::Tensor t, int root) override {
    done(ncclBroadcast(t.data_ptr(), t.data_ptr(), count(t), type_of(t), root, comm_, stream()),
         "broadcast");
  }
  void check() override {
    ncclResult_t result = ncclSuccess;
    check_result(ncclCommGetAsyncError(comm_, &result), "ncclCommGetAsyncError", comm_);
    check_result(result, "a collective failed", comm_);
  }
  void barrier() override {
    at::Tensor one = at::ones({1}, at::TensorOptions().dtype(at::kFloat).device(device_));
    all_reduce(one);
    one.item<float>();
  }

 private:
  static std::size_t count(const at::Tensor& t) { return static_cast<std::size_t>(t.numel()); }
  cudaStream_t stream() const { return c10::cuda::getCurrentCUDAStream(device_.index()).stream(); }
  void done(ncclResult_t result, const char* what) { check_result(result, what, comm_); }

  int rank_, size_;
  at::Device device_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::unique_ptr<Communicator> nccl_communicator(int rank, int size, at::Device device,
                                                const ShareFromRank0& share) {
  return std::make_unique<Nccl>(rank, size, device, share);
}

}  // namespace zplan::trainer
