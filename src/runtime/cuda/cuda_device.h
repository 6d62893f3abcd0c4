#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/device.h"

namespace sluice::runtime::cuda {

class Blas;

/// A CUDA stream. Copies from the host go through pinned memory of the stream, so that the caller's
/// may be reused at once and no step waits for one.
class CudaStream final : public Stream {
 public:
  /// Owns a new stream of the current device.
  CudaStream();
  /// Queues on a stream of the caller's, which must outlive this.
  explicit CudaStream(cudaStream_t stream) : stream_(stream) {}
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t handle() const { return stream_; }

  /// Scratch memory of kWorkspaceBytes for what is queued on this stream, one after another: the
  /// products of blas.h and whatever else wants it. Taken at the first call, which must not be
  /// while the stream is being captured; whoever plans work for a stream calls this.
  void* workspace();
  static constexpr std::size_t kWorkspaceBytes = 32 << 20;

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

  cudaStream_t stream_ = nullptr;
  bool owned_ = false;
  std::vector<Staging> staging_;
  cudaEvent_t start_ = nullptr, end_ = nullptr;  ///< of milliseconds_of, made when first asked
  void* workspace_ = nullptr;
};

/// One GPU.
class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, const kernels::DeviceKernels& kernels);
  ~CudaDevice() override;

  DeviceType type() const override { return DeviceType::kCuda; }
  std::string name() const override { return name_; }
  std::string model() const override { return model_; }
  std::size_t cache_bytes() const override { return cache_bytes_; }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* memory, std::size_t bytes) noexcept override;
  Stream& default_stream() override { return *stream_; }
  const kernels::DeviceKernels* kernels() const override { return kernels_; }

  int ordinal() const { return ordinal_; }
  /// cuBLASLt, opened at the first call, which takes the default stream's workspace too. Throws
  /// ErrorCode::kDevice with one sentence if it can't be had.
  Blas& blas();
  /// Streams that work on a stream of this device may fork to, if it joins them again; shared by
  /// all who do, for their work is queued in turn. Each is made, with its workspace, when first
  /// asked for: not while a stream is captured.
  CudaStream& side_stream(std::size_t index);
  /// Streaming multiprocessors.
  int processors() const { return processors_; }
  /// 90 for compute capability 9.0.
  int capability() const { return capability_; }

 private:
  int ordinal_;
  std::string name_, model_;
  int processors_ = 0, capability_ = 0;
  std::size_t cache_bytes_ = 0;
  const kernels::DeviceKernels* kernels_;
  std::unique_ptr<CudaStream> stream_;
  std::vector<std::unique_ptr<CudaStream>> sides_;
  std::unique_ptr<Blas> blas_;
};

/// The CUDA stream behind a stream that a cuda leaf was given.
inline cudaStream_t handle_of(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }
/// The GPU behind a context that a cuda leaf was given.
inline CudaDevice& device_of(const Context& context) {
  return static_cast<CudaDevice&>(context.device());
}

}  // namespace sluice::runtime::cuda
