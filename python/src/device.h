#pragma once

#include <nanobind/nanobind.h>
#include <sluice.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "errors.h"

namespace sluice::python {

class Device {
 public:
  explicit Device(std::string name);

  sluice_device* get() const { return device_.get(); }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::shared_ptr<sluice_device> device_;
};

/// Memory of a device, which goes with the object.
class Buffer {
 public:
  Buffer(const Device& device, std::size_t bytes);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::uintptr_t pointer() const { return reinterpret_cast<std::uintptr_t>(memory_); }
  std::size_t bytes() const { return bytes_; }

 private:
  Device device_;
  void* memory_ = nullptr;
  std::size_t bytes_;
};

/// Python functions that a wrapped stream takes its memory from.
struct Allocator {
  nb::object allocate, release;
  std::optional<nb::python_error> raised;  ///< by the last call of `allocate`
};

/// Shared by the Stream object and the plans made for it.
class Stream {
 public:
  explicit Stream(Device device);
  /// Both functions may be None.
  Stream(Device device, std::uintptr_t cuda_stream, nb::object allocate, nb::object release);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  sluice_stream* get() const { return stream_; }
  const Device& device() const { return device_; }

  /// Calls `call(sluice_error*)` without the GIL, one call of a stream at a time. Raises its error.
  template <class Call>
  void run(const Call& call) {
    sluice_error error;  // The message is written before it is read.
    error.size = sizeof error;
    sluice_status status;
    {
      const nb::gil_scoped_release released;
      const std::lock_guard lock(mutex_);
      status = call(&error);
    }
    if (status != SLUICE_OK) fail(status, error);
  }

  void synchronize();
  void upload(std::uintptr_t to, std::uintptr_t from, std::size_t bytes);
  void download(std::uintptr_t to, std::uintptr_t from, std::size_t bytes);

 private:
  void fail(sluice_status status, const sluice_error& error);

  Device device_;
  std::unique_ptr<Allocator> allocator_;
  std::mutex mutex_;
  sluice_stream* stream_ = nullptr;
};

void bind_device(nb::module_& module);

}  // namespace sluice::python
