#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/device.h"

namespace sluice::runtime::test {

/// The pages of a test device: closed to everybody but while a piece of work runs.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t limit) : free_(limit) {}
  ~GuardedMemory();
  void* allocate(std::size_t bytes);
  void deallocate(void* memory) noexcept;
  std::size_t free_bytes();
  void open();
  void close();

 private:
  void protect(int protection);

  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> regions_;
  std::size_t free_;  ///< bytes that may still be taken
  bool is_open_ = false;
};

/// Runs work in order on a thread of its own, opening the memory only meanwhile.
class TestStream final : public Stream {
 public:
  explicit TestStream(GuardedMemory& memory);
  ~TestStream() override;

  void launch(std::function<void()> kernel) override;
  void copy(void* destination, const void* source, std::size_t bytes, CopyKind kind) override;
  void upload(void* destination, const void* source, std::size_t bytes) override;
  void fill_zero(void* destination, std::size_t bytes) override;
  /// Records what is queued. What a GPU can't capture fails the capture: work that copies from or
  /// to the host, waits, takes memory or frees it.
  bool can_capture() const override { return true; }
  std::unique_ptr<Graph> capture(const std::function<void()>& work) override;
  void synchronize() override;

  /// Fails the capture that goes on, if one does.
  void forbid_in_capture(const char* what);

 private:
  void enqueue(std::function<void()> work);
  void work_loop();

  GuardedMemory& memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::exception_ptr error_;
  bool busy_ = false;
  bool stopping_ = false;
  // Of the thread that queues.
  std::shared_ptr<std::vector<std::function<void()>>> recorded_;  ///< null: no capture goes on
  const char* forbidden_ = nullptr;  ///< the first that the capture met
  std::thread worker_;
};

/// A device that proves the interfaces: its kernels are the CPU's, but the host can read none of
/// its memory between them (a stray access is a segmentation fault) and they run later, on another
/// thread. Fresh memory is filled with NaN, so nothing may count on zeros.
class TestDevice final : public Device {
 public:
  /// Refuses memory beyond `limit` bytes.
  explicit TestDevice(std::size_t limit = std::numeric_limits<std::size_t>::max())
      : memory_(limit), stream_(memory_) {}

  DeviceType type() const override { return DeviceType::kTest; }
  std::string name() const override { return "test"; }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* memory, std::size_t bytes) noexcept override;
  Stream& default_stream() override { return stream_; }
  std::size_t free_bytes() const override { return memory_.free_bytes(); }

 private:
  mutable GuardedMemory memory_;
  TestStream stream_;
};

}  // namespace sluice::runtime::test
