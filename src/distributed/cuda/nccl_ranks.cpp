#include "distributed/nccl_part.h"
#include "runtime/build_id.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#include <cstring>

#include "base/check.h"
#include "distributed/cuda/cuda_window.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/current_device.h"
#include "runtime/cuda/libraries.h"

namespace sluice::distributed {
namespace {

using runtime::DType;
using runtime::cuda::CurrentDevice;

/// NCCL's functions, of the library that this process opened.
struct Nccl {
  runtime::VendorLibrary library = runtime::open_vendor(runtime::cuda::kNccl);
  decltype(&ncclGetUniqueId) get_unique_id = find(ncclGetUniqueId, "ncclGetUniqueId");
  decltype(&ncclCommInitRank) init = find(ncclCommInitRank, "ncclCommInitRank");
  decltype(&ncclCommDestroy) destroy = find(ncclCommDestroy, "ncclCommDestroy");
  decltype(&ncclAllReduce) all_reduce = find(ncclAllReduce, "ncclAllReduce");
  decltype(&ncclReduceScatter) reduce_scatter = find(ncclReduceScatter, "ncclReduceScatter");
  decltype(&ncclAllGather) all_gather = find(ncclAllGather, "ncclAllGather");
  decltype(&ncclBroadcast) broadcast = find(ncclBroadcast, "ncclBroadcast");
  decltype(&ncclGetErrorString) error_string = find(ncclGetErrorString, "ncclGetErrorString");
  decltype(&ncclGetLastError) last_error = find(ncclGetLastError, "ncclGetLastError");

  void check(ncclResult_t result, const char* what) const {
    if (result == ncclSuccess) return;
    std::string words = last_error(nullptr);
    if (words.empty()) words = error_string(result);
    while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
    base::fail(ErrorCode::kDevice, "NCCL could not {}: {}", what, words);
  }

 private:
  // The function of the header only lends its type: this library is not linked to NCCL.
  template <typename Function>
  Function* find(Function&, const char* name) const {
    return library.function<Function>(name);
  }
};

const Nccl& nccl() {
  static const Nccl functions;
  return functions;
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kBFloat16:
      return ncclBfloat16;
    default:
      return ncclUint8;
  }
}

class NcclRank final : public Communicator {
 public:
  NcclRank(runtime::Device& gpu, Communicator& hosts) : hosts_(&hosts) {
    SLUICE_CHECK(gpu.type() == runtime::DeviceType::kCuda, "{} is no GPU, which NCCL works on",
                 gpu.name());
    ordinal_ = runtime::cuda::gpu_of(gpu.default_stream()).ordinal;
  }
  ~NcclRank() override {
    if (ranks_ != nullptr) nccl().destroy(ranks_);
  }
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  std::int64_t rank() const override { return hosts_->rank(); }
  std::int64_t size() const override { return hosts_->size(); }

  void all_reduce(const Context& context, const Tensor& values, Reduction reduction) override {
    check_reduction(values, reduction);
    const CurrentDevice current(ordinal_);
    nccl().check(
        nccl().all_reduce(values.data(), values.data(), count_of(values), type_of(values.dtype()),
                          reduction == Reduction::kSum ? ncclSum : ncclMax, connected(),
                          stream_of(context)),
        "queue an all-reduce");
  }

  void reduce_scatter(const Context& context, const Tensor& values) override {
    check_reduction(values, Reduction::kSum);
    check_parts(values, size());
    const CurrentDevice current(ordinal_);
    nccl().check(
        nccl().reduce_scatter(values.data(), own_part(values),
                              count_of(values) / static_cast<std::size_t>(size()),
                              type_of(values.dtype()), ncclSum, connected(), stream_of(context)),
        "queue a reduce-scatter");
  }

  void all_gather(const Context& context, const Tensor& values) override {
    check_parts(values, size());
    const CurrentDevice current(ordinal_);
    nccl().check(nccl().all_gather(own_part(values), values.data(),
                                   values.byte_size() / static_cast<std::size_t>(size()), ncclUint8,
                                   connected(), stream_of(context)),
                 "queue an all-gather");
  }

  void broadcast(const Context& context, const Tensor& values, std::int64_t root) override {
    SLUICE_CHECK(values.is_contiguous() && root >= 0 && root < size(),
                 "a broadcast is of a contiguous tensor, from a rank");
    const CurrentDevice current(ordinal_);
    nccl().check(nccl().broadcast(values.data(), values.data(), values.byte_size(), ncclUint8,
                                  static_cast<int>(root), connected(), stream_of(context)),
                 "queue a broadcast");
  }

  std::unique_ptr<Window> open_window(const Context& context, std::size_t bytes,
                                      std::size_t numbers) override {
    stream_of(context);
    return cuda::open_window(*this, ordinal_, bytes, numbers);
  }

  std::vector<std::string> exchange(std::string_view own) override { return hosts_->exchange(own); }
  void abort(const Error& error) noexcept override { hosts_->abort(error); }

 private:
  /// NCCL's own, which all ranks make together where they first need it: ranks that only share
  /// memory do without, and may be several on one GPU.
  ncclComm_t connected() {
    if (ranks_ != nullptr) return ranks_;
    const Nccl& functions = nccl();
    ncclUniqueId id{};
    if (rank() == 0) functions.check(functions.get_unique_id(&id), "begin to connect ranks");
    const std::string own(reinterpret_cast<const char*>(&id), sizeof id);
    const std::string first = hosts_->exchange(own).front();
    SLUICE_ASSERT(first.size() == sizeof id);
    std::memcpy(&id, first.data(), sizeof id);
    functions.check(functions.init(&ranks_, static_cast<int>(size()), id, static_cast<int>(rank())),
                    "connect the ranks");
    return ranks_;
  }

  cudaStream_t stream_of(const Context& context) const {
    SLUICE_CHECK(context.device().type() == runtime::DeviceType::kCuda &&
                     runtime::cuda::gpu_of(context.stream()).ordinal == ordinal_,
                 "a rank on cuda:{} can't work on {}", ordinal_, context.device().name());
    return runtime::cuda::handle_of(context.stream());
  }
  std::byte* own_part(const Tensor& values) const {
    return static_cast<std::byte*>(values.data()) +
           values.byte_size() / static_cast<std::size_t>(size()) * static_cast<std::size_t>(rank());
  }
  static std::size_t count_of(const Tensor& values) {
    return static_cast<std::size_t>(values.element_count());
  }

  Communicator* hosts_;
  int ordinal_ = 0;
  ncclComm_t ranks_ = nullptr;
};

Communicator* join(runtime::Device& gpu, Communicator& hosts) { return new NcclRank(gpu, hosts); }

}  // namespace
}  // namespace sluice::distributed

#else

#include "base/check.h"

namespace sluice::distributed {
namespace {

Communicator* join(runtime::Device&, Communicator&) {
  base::fail(ErrorCode::kDevice,
             "this build of Sluice has no ranks on GPUs; build it where NCCL's header nccl.h is");
}

}  // namespace
}  // namespace sluice::distributed

#endif

extern "C" [[gnu::visibility("default")]] const sluice::runtime::Part* sluice_nccl_part() {
  static const sluice::distributed::NcclPart part{{sluice::runtime::build_id()},
                                                  sluice::distributed::join};
  return &part;
}
