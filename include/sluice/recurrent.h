#pragma once

#include <sluice.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/error.h"

/// Recurrent layers on your own tensors, from C++: objects that own the handles of sluice.h, and
/// exceptions for its errors. All of it is inline, so it needs nothing but libsluice.so.
namespace sluice {

/// The error that a function of sluice.h fills in. Throws it as an Error if there was one.
class ErrorSink {
 public:
  sluice_error* get() { return &error_; }
  void check(sluice_status status) const {
    if (status == SLUICE_OK) return;
    throw Error(static_cast<ErrorCode>(static_cast<int>(status) - 1), error_.message);
  }

 private:
  sluice_error error_{sizeof(sluice_error), SLUICE_OK, {}};
};

/// A device by name: "cpu", "cuda" or "cuda:N".
class Device {
 public:
  explicit Device(const std::string& name) {
    sluice_device* device = nullptr;
    ErrorSink error;
    error.check(sluice_device_open(name.c_str(), &device, error.get()));
    handle_.reset(device);
  }

  sluice_device* handle() const { return handle_.get(); }

 private:
  struct Close {
    void operator()(sluice_device* device) const { sluice_device_close(device); }
  };
  std::unique_ptr<sluice_device, Close> handle_;
};

/// A queue of work on a device, which must outlive it.
class Stream {
 public:
  explicit Stream(const Device& device) {
    ErrorSink error;
    sluice_stream* stream = nullptr;
    error.check(sluice_stream_create(device.handle(), &stream, error.get()));
    handle_.reset(stream);
  }
  /// Queues on the caller's cudaStream_t, which must outlive this. Without an allocator it takes
  /// scratch memory from CUDA.
  Stream(const Device& device, void* cuda_stream, const sluice_allocator* allocator = nullptr) {
    ErrorSink error;
    sluice_stream* stream = nullptr;
    error.check(sluice_stream_wrap(device.handle(), cuda_stream, allocator, &stream, error.get()));
    handle_.reset(stream);
  }

  void synchronize() const {
    ErrorSink error;
    error.check(sluice_stream_synchronize(handle(), error.get()));
  }
  sluice_stream* handle() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(sluice_stream* stream) const { sluice_stream_destroy(stream); }
  };
  std::unique_ptr<sluice_stream, Destroy> handle_;
};

/// Device memory, aligned to 64 bytes on the CPU and 256 on a GPU: for callers that have no
/// allocator of their own.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const Device& device, std::size_t bytes)
      : memory_(nullptr, Free{device.handle(), bytes}) {
    void* memory = nullptr;
    ErrorSink error;
    error.check(sluice_device_allocate(device.handle(), bytes, &memory, error.get()));
    memory_.reset(memory);
  }
  /// A copy of host values.
  template <typename T>
  DeviceMemory(const Device& device, const Stream& stream, const std::vector<T>& values)
      : DeviceMemory(device, values.size() * sizeof(T)) {
    ErrorSink error;
    error.check(sluice_stream_upload(stream.handle(), get(), values.data(), bytes(), error.get()));
  }

  /// Waits, then copies to the host.
  template <typename T>
  std::vector<T> download(const Stream& stream) const {
    std::vector<T> values(bytes() / sizeof(T));
    ErrorSink error;
    error.check(sluice_stream_download(stream.handle(), values.data(), get(),
                                       values.size() * sizeof(T), error.get()));
    return values;
  }

  void* get() const { return memory_.get(); }
  std::size_t bytes() const { return memory_.get_deleter().bytes; }

 private:
  struct Free {
    sluice_device* device;
    std::size_t bytes;
    void operator()(void* memory) const { sluice_device_free(device, memory, bytes); }
  };
  std::unique_ptr<void, Free> memory_;
};

/// A stack of LSTM, GRU or plain RNN layers, planned for a stream, which must outlive it.
/// sluice.h says what the structs mean.
class RecurrentPlan {
 public:
  /// Throws ErrorCode::kInvalidArgument for sizes that make no sense, and kUnsupported if nothing
  /// here can run it.
  RecurrentPlan(const Stream& stream, const sluice_recurrent_options& options) {
    sluice_recurrent* plan = nullptr;
    ErrorSink error;
    error.check(sluice_recurrent_create(stream.handle(), &options, &plan, error.get()));
    handle_.reset(plan);
  }

  sluice_recurrent_sizes sizes() const {
    sluice_recurrent_sizes sizes{sizeof(sluice_recurrent_sizes), 0, 0, 0};
    ErrorSink error;
    error.check(sluice_recurrent_get_sizes(handle(), &sizes, error.get()));
    return sizes;
  }
  std::string implementation() const { return sluice_recurrent_implementation(handle()); }
  /// A line for each implementation that declined: its name and the reason.
  std::string explain() const { return sluice_recurrent_explain(handle()); }
  /// Names the layout that `pack` writes: sluice_recurrent_packed_layout.
  std::string packed_layout() const { return sluice_recurrent_packed_layout(handle()); }

  /// One set for each layer and direction. To be called again when weights change.
  void pack(std::span<const sluice_recurrent_weights> weights,
            const sluice_recurrent_memory& memory) const {
    ErrorSink error;
    error.check(sluice_recurrent_pack(
        handle(), weights.data(), static_cast<std::int64_t>(weights.size()), &memory, error.get()));
  }
  void forward(const sluice_recurrent_forward_args& args,
               const sluice_recurrent_memory& memory) const {
    ErrorSink error;
    error.check(sluice_recurrent_forward(handle(), &args, &memory, error.get()));
  }
  /// `args` as forward was given them.
  void backward(const sluice_recurrent_forward_args& args,
                const sluice_recurrent_backward_args& backward,
                const sluice_recurrent_memory& memory) const {
    ErrorSink error;
    error.check(sluice_recurrent_backward(handle(), &args, &backward, &memory, error.get()));
  }

  sluice_recurrent* handle() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(sluice_recurrent* plan) const { sluice_recurrent_destroy(plan); }
  };
  std::unique_ptr<sluice_recurrent, Destroy> handle_;
};

/// The three memories of a plan, taken from its device.
class PlanMemory {
 public:
  PlanMemory(const Device& device, const sluice_recurrent_sizes& sizes)
      : memories_{DeviceMemory(device, sizes.packed), DeviceMemory(device, sizes.workspace),
                  DeviceMemory(device, sizes.reserve)} {}

  sluice_recurrent_memory get() const {
    return {sizeof(sluice_recurrent_memory), memories_[0].get(), memories_[1].get(),
            memories_[2].get()};
  }

 private:
  std::array<DeviceMemory, 3> memories_;
};

}  // namespace sluice
