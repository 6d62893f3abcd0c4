#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sluice::kernels {
struct DeviceKernels;
}

namespace sluice::runtime {

enum class DeviceType { kCpu, kCuda, kTest };

enum class CopyKind { kHostToDevice, kDeviceToHost, kDeviceToDevice };

class DeviceTrace;
class Stream;

/// Work that was captured once, to be queued again as a whole: the same operations on the same
/// memory with the same numbers.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream& stream) = 0;
};

/// An ordered queue of work. Calls return before the work is done; only `synchronize` waits.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Queues a host function that may touch the memory of this stream's device. CPU-like devices
  /// only: every cpu leaf of kernels/ runs through here, once per operation and not per loop turn.
  /// The function owns what it captures; views and numbers by value, never references to locals.
  /// An exception it throws is rethrown by the next `synchronize`.
  virtual void launch(std::function<void()> kernel) = 0;

  /// Queues a copy. Host memory must stay valid and untouched until `synchronize`.
  virtual void copy(void* destination, const void* source, std::size_t bytes, CopyKind kind) = 0;

  /// Queues a copy from host memory that may be reused when this returns, though the copy may not
  /// be done yet.
  virtual void upload(void* destination, const void* source, std::size_t bytes) {
    copy(destination, source, bytes, CopyKind::kHostToDevice);
    synchronize();
  }

  /// Queues filling `bytes` bytes with zero.
  virtual void fill_zero(void* destination, std::size_t bytes) = 0;

  /// Whether `capture` can be used.
  virtual bool can_capture() const { return false; }
  /// Runs `work`, which only queues operations on this stream (or on streams that fork from it and
  /// join it again), and returns them without running any. Throws ErrorCode::kUnsupported where
  /// the device can't, and what `work` throws.
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& work);

  /// Milliseconds that the device takes for what `work` queues, waiting before and after.
  virtual double milliseconds_of(const std::function<void()>& work);

  /// Waits until everything queued is done and rethrows the first error met.
  virtual void synchronize() = 0;
};

/// Where a stream of a caller's takes the scratch memory that it works with.
struct StreamMemory {
  std::function<void*(std::size_t bytes)> allocate;  ///< null where none is left
  std::function<void(void* memory, std::size_t bytes)> release;
};

/// Where tensors live and kernels run. The host must not dereference a device's memory: it goes
/// through Stream::copy, also on the CPU, so that the same code runs on every device.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceType type() const = 0;
  /// "cpu", "cuda:0", "test"
  virtual std::string name() const = 0;

  /// Memory aligned to 64 bytes. Throws ErrorCode::kOutOfMemory, after which the device is usable.
  virtual void* allocate(std::size_t bytes) = 0;
  /// Waits for queued work that may still use the memory, then frees it.
  virtual void deallocate(void* memory, std::size_t bytes) noexcept = 0;

  /// The device's own stream, used unless a Context is given another.
  virtual Stream& default_stream() = 0;
  /// A stream of its own, beside the default one. Throws ErrorCode::kUnsupported where the device
  /// has but one.
  virtual std::unique_ptr<Stream> make_stream();
  /// Queues on a native stream of the caller's (a cudaStream_t), which must outlive it. Streams
  /// share nothing that two threads could meet in. `memory` may be empty: then the device's own.
  /// Throws ErrorCode::kUnsupported where streams are none of the system's.
  virtual std::unique_ptr<Stream> wrap_stream(void* native, StreamMemory memory);

  /// Whether kernels are host functions started with Stream::launch.
  bool runs_host_kernels() const { return kernels() == nullptr; }
  /// The kernels of a device that can't run host functions; null for one that can.
  virtual const kernels::DeviceKernels* kernels() const { return nullptr; }
  /// What implementations are chosen by, e.g. "NVIDIA H200"; the name for devices of the host.
  virtual std::string model() const { return name(); }
  /// Tells what the device does when, for a device with a clock of its own that `records` is asked
  /// of or whose work a tool watches; else null. The device must outlive it.
  virtual std::unique_ptr<DeviceTrace> trace(bool records);
  /// Bytes of the largest cache before its memory.
  virtual std::size_t cache_bytes() const;
  /// Bytes of its memory that could be taken now, as far as it knows: for messages.
  virtual std::size_t free_bytes() const;

  /// Bytes of the device's memory that Buffers hold at most at a time, since the device was opened
  /// or the peak was reset to what they hold now.
  std::size_t memory_peak() const { return peak_; }
  void reset_memory_peak() { peak_ = held_.load(); }

 private:
  friend class Buffer;
  void note_taken(std::size_t bytes);
  void note_freed(std::size_t bytes) { held_ -= bytes; }

  std::atomic<std::size_t> held_ = 0, peak_ = 0;
};

/// Opens a device by name: "cpu", "test", "cuda" or "cuda:N". Throws ErrorCode::kDevice with the
/// reason if it can't be had.
std::unique_ptr<Device> open_device(std::string_view name);

}  // namespace sluice::runtime
