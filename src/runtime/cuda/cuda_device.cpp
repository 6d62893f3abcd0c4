#include "runtime/cuda/cuda_device.h"

#include <cstring>

#include "base/check.h"
#include "runtime/cuda/blas.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/current_device.h"
#include "runtime/cuda/device_trace.h"

namespace sluice::runtime::cuda {
namespace {

constexpr std::size_t kSmallestStaging = 64 << 10;
constexpr std::size_t kMostStaging = 32;  ///< pieces; beyond, a copy waits for an earlier one

class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(cudaGraph_t graph) {
    const cudaError_t result = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(result, "make a CUDA graph");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch(Stream& stream) override {
    const CurrentDevice current(gpu_of(stream).ordinal);
    check(cudaGraphLaunch(executable_, handle_of(stream)), "launch a CUDA graph");
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

/// Lets this thread take memory although it captures a stream, which it must not record.
class OutsideOfCapture {
 public:
  OutsideOfCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideOfCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideOfCapture(const OutsideOfCapture&) = delete;
  OutsideOfCapture& operator=(const OutsideOfCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Puts another stream in the place of CUDA's legacy default stream, which can't be captured.
class StandIn {
 public:
  explicit StandIn(cudaStream_t& stream) : place_(stream), before_(stream) {
    if (stream != nullptr && stream != cudaStreamLegacy) return;
    check(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking), "create a CUDA stream");
    place_ = own_;
  }
  ~StandIn() {
    place_ = before_;
    if (own_ != nullptr) cudaStreamDestroy(own_);
  }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

 private:
  cudaStream_t& place_;
  cudaStream_t before_, own_ = nullptr;
};

}  // namespace

GpuProperties properties_of(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), fmt::format("ask what cuda:{} is", ordinal));
  return {ordinal,
          properties.name,
          properties.major * 10 + properties.minor,
          properties.multiProcessorCount,
          properties.totalGlobalMem,
          static_cast<std::size_t>(properties.l2CacheSize),
          properties.sharedMemPerBlockOptin};
}

CudaStream::CudaStream(const GpuProperties& gpu) : gpu_(&gpu), owned_(true) {
  const CurrentDevice current(gpu.ordinal);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a CUDA stream");
}

CudaStream::CudaStream(const GpuProperties& gpu, cudaStream_t stream, StreamMemory memory)
    : gpu_(&gpu), stream_(stream), memory_(std::move(memory)) {}

CudaStream::~CudaStream() {
  for (const Staging& staging : staging_) {
    cudaEventSynchronize(staging.done);
    cudaEventDestroy(staging.done);
    cudaFreeHost(staging.memory);
  }
  if (start_ != nullptr) cudaEventDestroy(start_);
  if (end_ != nullptr) cudaEventDestroy(end_);
  sides_.clear();
  if (workspace_ != nullptr && memory_.release) {
    memory_.release(workspace_, kWorkspaceBytes);
  } else {
    cudaFree(workspace_);
  }
  if (owned_) cudaStreamDestroy(stream_);
}

void CudaStream::launch(std::function<void()>) {
  base::fail(ErrorCode::kUnsupported, "a host function can't run on a CUDA stream");
}

void CudaStream::copy(void* destination, const void* source, std::size_t bytes, CopyKind) {
  if (bytes == 0) return;
  const CurrentDevice current(gpu_->ordinal);  // which a default stream belongs to
  check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream_), "copy memory");
}

CudaStream::Staging& CudaStream::staging_for(std::size_t bytes) {
  for (Staging& staging : staging_) {
    if (staging.bytes >= bytes && cudaEventQuery(staging.done) == cudaSuccess) return staging;
  }
  cudaGetLastError();  // "not ready" is no error
  for (Staging& staging : staging_) {
    if (staging_.size() < kMostStaging || staging.bytes < bytes) continue;
    check(cudaEventSynchronize(staging.done), "wait for a copy");
    return staging;
  }
  const CurrentDevice current(gpu_->ordinal);
  // In its place before anything is taken for it, so that nothing is lost if that fails.
  Staging& staging = staging_.emplace_back();
  try {
    check(cudaEventCreateWithFlags(&staging.done, cudaEventDisableTiming), "create a CUDA event");
    std::size_t size = kSmallestStaging;
    while (size < bytes) size *= 2;
    check(cudaHostAlloc(&staging.memory, size, cudaHostAllocDefault),
          "take pinned memory for a copy");
    staging.bytes = size;
  } catch (...) {
    if (staging.done != nullptr) cudaEventDestroy(staging.done);
    staging_.pop_back();
    throw;
  }
  return staging;
}

void CudaStream::upload(void* destination, const void* source, std::size_t bytes) {
  // A large copy is worth the wait; pinned memory for it is not.
  constexpr std::size_t kLargest = 16 << 20;
  if (bytes == 0) return;
  if (bytes > kLargest) return Stream::upload(destination, source, bytes);
  Staging& staging = staging_for(bytes);
  std::memcpy(staging.memory, source, bytes);
  copy(destination, staging.memory, bytes, CopyKind::kHostToDevice);
  check(cudaEventRecord(staging.done, stream_), "record a CUDA event");
}

void* CudaStream::workspace() {
  if (workspace_ != nullptr) return workspace_;
  const CurrentDevice current(gpu_->ordinal);
  const OutsideOfCapture outside;
  if (memory_.allocate) {
    workspace_ = memory_.allocate(kWorkspaceBytes);
    if (workspace_ == nullptr) {
      base::fail(ErrorCode::kOutOfMemory,
                 "the caller's allocator has no {} MiB of workspace for a stream",
                 kWorkspaceBytes >> 20);
    }
  } else {
    check(cudaMalloc(&workspace_, kWorkspaceBytes),
          fmt::format("take {} MiB of workspace for a stream", kWorkspaceBytes >> 20));
  }
  return workspace_;
}

Blas& CudaStream::blas() {
  if (parent_ != nullptr) return parent_->blas();
  if (!blas_) {
    const CurrentDevice current(gpu_->ordinal);
    const OutsideOfCapture outside;
    workspace();
    blas_ = std::make_unique<Blas>();
  }
  return *blas_;
}

CudaStream& CudaStream::side(std::size_t index) {
  while (sides_.size() <= index) {
    auto side = std::make_unique<CudaStream>(*gpu_);
    side->memory_ = memory_;
    side->parent_ = this;
    side->workspace();
    sides_.push_back(std::move(side));
  }
  return *sides_[index];
}

void CudaStream::fill_zero(void* destination, std::size_t bytes) {
  if (bytes == 0) return;
  const CurrentDevice current(gpu_->ordinal);
  check(cudaMemsetAsync(destination, 0, bytes, stream_), "clear memory");
}

std::unique_ptr<Graph> CudaStream::capture(const std::function<void()>& work) {
  const CurrentDevice current(gpu_->ordinal);
  const StandIn stand_in(stream_);
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
        "begin to capture a CUDA graph");
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream_, &graph), "capture a CUDA graph");
  return std::make_unique<CudaGraph>(graph);
}

double CudaStream::milliseconds_of(const std::function<void()>& work) {
  const CurrentDevice current(gpu_->ordinal);
  if (start_ == nullptr) {
    check(cudaEventCreate(&start_), "create a CUDA event");
    check(cudaEventCreate(&end_), "create a CUDA event");
  }
  synchronize();
  check(cudaEventRecord(start_, stream_), "record a CUDA event");
  work();
  check(cudaEventRecord(end_, stream_), "record a CUDA event");
  synchronize();
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start_, end_), "read CUDA events");
  return milliseconds;
}

void CudaStream::synchronize() {
  const CurrentDevice current(gpu_->ordinal);
  check(cudaStreamSynchronize(stream_), "finish the work on the GPU");
}

CudaDevice::CudaDevice(int ordinal, const kernels::DeviceKernels& kernels)
    : gpu_(properties_of(ordinal)), name_(fmt::format("cuda:{}", ordinal)), kernels_(&kernels) {
  check(cudaSetDevice(ordinal), fmt::format("use device {}", name_));
  stream_ = std::make_unique<CudaStream>(gpu_);
  gpu_.code = code_of_current_gpu(stream_->handle());
}

CudaDevice::~CudaDevice() = default;

std::unique_ptr<DeviceTrace> CudaDevice::trace(bool records) { return open_trace(records); }

std::unique_ptr<Stream> CudaDevice::make_stream() { return std::make_unique<CudaStream>(gpu_); }

std::unique_ptr<Stream> CudaDevice::wrap_stream(void* native, StreamMemory memory) {
  return std::make_unique<CudaStream>(gpu_, static_cast<cudaStream_t>(native), std::move(memory));
}

std::size_t CudaDevice::free_bytes() const {
  const CurrentDevice current(gpu_.ordinal);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "ask for free memory");
  return free;
}

void* CudaDevice::allocate(std::size_t bytes) {
  const CurrentDevice current(gpu_.ordinal);
  const OutsideOfCapture outside;
  void* memory = nullptr;
  const cudaError_t result = cudaMalloc(&memory, bytes == 0 ? 64 : bytes);
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    base::fail(ErrorCode::kOutOfMemory,
               "out of memory on {} ({}): {} MiB asked for, {} of {} MiB free; use smaller batches "
               "or a smaller model",
               name_, gpu_.model, bytes >> 20, free_bytes() >> 20, gpu_.memory_bytes >> 20);
  }
  check(result, fmt::format("take {} bytes on {}", bytes, name_));
  return memory;
}

// CUDA knows the memory's GPU by its address.
void CudaDevice::deallocate(void* memory, std::size_t) noexcept { cudaFree(memory); }

}  // namespace sluice::runtime::cuda
