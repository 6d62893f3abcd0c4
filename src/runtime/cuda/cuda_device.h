#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/cuda/kernel_code.h"
#include "runtime/device.h"

namespace sluice::runtime::cuda {

class Blas;

/// What a GPU is, as it says itself. Kernels and plans ask here instead of assuming a model.
struct GpuProperties {
  int ordinal = 0;
  std::string model;   ///< "NVIDIA H200"
  int capability = 0;  ///< 90 for compute capability 9.0
  int processors = 0;  ///< streaming multiprocessors
  std::size_t memory_bytes = 0;
  std::size_t cache_bytes = 0;   ///< of the L2
  std::size_t shared_bytes = 0;  ///< of shared memory that a block may have, static and dynamic
  KernelCode code{};             ///< what this build has for it; known once a CudaDevice is open
};
GpuProperties properties_of(int ordinal);

/// A CUDA stream. Copies from the host go through pinned memory of the stream, so that the caller's
/// may be reused at once and no step waits for one.
class CudaStream final : public Stream {
 public:
  /// Owns a new stream of this GPU. The properties must outlive it.
  explicit CudaStream(const GpuProperties& gpu);
  /// Queues on a stream of the caller's on that GPU, which must outlive this.
  CudaStream(const GpuProperties& gpu, cudaStream_t stream, StreamMemory memory = {});
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t handle() const { return stream_; }
  const GpuProperties& gpu() const { return *gpu_; }

  /// Scratch memory of kWorkspaceBytes for what is queued on this stream, one after another: the
  /// products of blas.h and whatever else wants it. Taken at the first call, which must not be
  /// while the stream is being captured; whoever plans work for a stream calls this.
  void* workspace();
  static constexpr std::size_t kWorkspaceBytes = 32 << 20;

  /// cuBLASLt for this stream and those that fork from it, opened at the first call, which takes
  /// the workspace too. Throws ErrorCode::kDevice with one sentence if it can't be had.
  Blas& blas();

  /// Streams that work on this one may fork to, if it joins them again; shared by all who do, for
  /// their work is queued in turn. Each is made, with its workspace, when first asked for: not
  /// while this stream is captured.
  CudaStream& side(std::size_t index);

  /// Throws ErrorCode::kUnsupported: host functions can't touch this device's memory.
  void launch(std::function<void()> kernel) override;
  void copy(void* destination, const void* source, std::size_t bytes, CopyKind kind) override;
  void upload(void* destination, const void* source, std::size_t bytes) override;
  void fill_zero(void* destination, std::size_t bytes) override;
  bool can_capture() const override { return true; }
  std::unique_ptr<Graph> capture(const std::function<void()>& work) override;
  double milliseconds_of(const std::function<void()>& work) override;
  void synchronize() override;

 private:
  /// A piece of pinned memory, free once `done` has happened.
  struct Staging {
    void* memory = nullptr;
    std::size_t bytes = 0;
    cudaEvent_t done = nullptr;
  };
  Staging& staging_for(std::size_t bytes);

  const GpuProperties* gpu_;
  cudaStream_t stream_ = nullptr;
  bool owned_ = false;
  std::vector<Staging> staging_;
  cudaEvent_t start_ = nullptr, end_ = nullptr;  ///< of milliseconds_of, made when first asked
  StreamMemory memory_;                          ///< empty: cudaMalloc's
  void* workspace_ = nullptr;
  CudaStream* parent_ = nullptr;  ///< of a side stream
  std::unique_ptr<Blas> blas_;
  std::vector<std::unique_ptr<CudaStream>> sides_;
};

/// One GPU. It, its streams and what runs on them may be used whatever GPU is current, and leave
/// that as it was.
class CudaDevice final : public Device {
 public:
  /// Makes the GPU current for this thread, so that who uses one alone never changes.
  CudaDevice(int ordinal, const kernels::DeviceKernels& kernels);
  ~CudaDevice() override;

  DeviceType type() const override { return DeviceType::kCuda; }
  std::string name() const override { return name_; }
  std::string model() const override { return gpu_.model; }
  std::size_t cache_bytes() const override { return gpu_.cache_bytes; }
  std::size_t free_bytes() const override;
  void* allocate(std::size_t bytes) override;
  void deallocate(void* memory, std::size_t bytes) noexcept override;
  Stream& default_stream() override { return *stream_; }
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Stream> wrap_stream(void* native, StreamMemory memory) override;
  const kernels::DeviceKernels* kernels() const override { return kernels_; }
  std::unique_ptr<DeviceTrace> trace(bool records) override;

  const GpuProperties& gpu() const { return gpu_; }
  int capability() const { return gpu_.capability; }
  int processors() const { return gpu_.processors; }

 private:
  GpuProperties gpu_;
  std::string name_;
  const kernels::DeviceKernels* kernels_;
  std::unique_ptr<CudaStream> stream_;
};

/// The CUDA stream behind a stream that a cuda leaf was given.
inline cudaStream_t handle_of(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }
/// What the GPU of such a stream is.
inline const GpuProperties& gpu_of(Stream& stream) {
  return static_cast<CudaStream&>(stream).gpu();
}
/// cuBLASLt for the work of a context that a cuda leaf was given.
inline Blas& blas_of(const Context& context) {
  return static_cast<CudaStream&>(context.stream()).blas();
}

}  // namespace sluice::runtime::cuda
