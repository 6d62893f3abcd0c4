#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace sluice::runtime::cuda {

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
};

/// One GPU.
class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, const kernels::DeviceKernels& kernels);

  DeviceType type() const override { return DeviceType::kCuda; }
  std::string name() const override { return name_; }
  std::string model() const override { return model_; }
  std::size_t cache_bytes() const override { return cache_bytes_; }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* memory, std::size_t bytes) noexcept override;
  Stream& default_stream() override { return *stream_; }
  const kernels::DeviceKernels* kernels() const override { return kernels_; }

  int ordinal() const { return ordinal_; }
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
};

/// The CUDA stream behind a stream that a cuda leaf was given.
inline cudaStream_t handle_of(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }

}  // namespace sluice::runtime::cuda
