#pragma once

#include "runtime/device.h"

namespace sluice::runtime::cpu {

/// Runs each piece of work at once on the calling thread (kernels use OpenMP inside).
class CpuStream final : public Stream {
 public:
  void launch(std::function<void()> kernel) override;
  void copy(void* destination, const void* source, std::size_t bytes, CopyKind kind) override;
  void fill_zero(void* destination, std::size_t bytes) override;
  void synchronize() override {}
};

class CpuDevice final : public Device {
 public:
  DeviceType type() const override { return DeviceType::kCpu; }
  std::string name() const override { return "cpu"; }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* memory, std::size_t bytes) noexcept override;
  Stream& default_stream() override { return stream_; }

 private:
  CpuStream stream_;
};

}  // namespace sluice::runtime::cpu
