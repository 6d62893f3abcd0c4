#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "runtime/context.h"

namespace sluice::distributed {

/// Memory of each rank that all ranks read and write when they like, without help of its owner, and
/// numbers that they share. Both are zero at first.
///
/// Whoever touches an owner's memory holds its lock (HeldMemory). Copies are queued on the stream
/// and done when unlock returns. Where a rank has failed, lock may throw; ranks that are processes
/// end.
class Window {
 public:
  /// Without finish(), as after an error, memory that others may still read goes with the process.
  virtual ~Window() = default;
  /// Gives the memory back. All ranks must call it, once none touches it any more.
  virtual void finish() = 0;

  /// Waits until no rank holds the memory of rank `owner`, and holds it.
  virtual void lock(std::int64_t owner) = 0;
  /// Waits for the stream and lets the memory go, also if the stream has met an error.
  virtual void unlock(const runtime::Context& context, std::int64_t owner) = 0;

  /// Copies from and to the memory of `owner`, from byte `offset` on. Tensors are contiguous.
  virtual void get(const runtime::Context& context, std::int64_t owner, std::size_t offset,
                   const runtime::Tensor& to) = 0;
  virtual void put(const runtime::Context& context, std::int64_t owner, std::size_t offset,
                   const runtime::Tensor& from) = 0;

  /// Adds to a number, as one indivisible act, and returns what it was before. Needs no lock.
  virtual std::int64_t add(std::size_t number, std::int64_t amount) = 0;
};

/// Holds the memory of a rank.
class HeldMemory {
 public:
  HeldMemory(Window& window, const runtime::Context& context, std::int64_t owner)
      : window_(&window), context_(&context), owner_(owner) {
    window.lock(owner);
  }
  ~HeldMemory() {
    if (window_ == nullptr) return;
    try {
      release();
    } catch (...) {  // an error is on its way already
    }
  }
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

  /// Waits for the stream and lets the memory go; throws what the stream met.
  void release() {
    Window* window = std::exchange(window_, nullptr);
    window->unlock(*context_, owner_);
  }

 private:
  Window* window_;
  const runtime::Context* context_;
  std::int64_t owner_;
};

/// Refuses a tensor that is not contiguous or goes beyond the memory of a rank.
inline void check_in_window(const runtime::Tensor& tensor, std::size_t offset, std::size_t bytes) {
  SLUICE_CHECK(tensor.is_contiguous() && offset <= bytes && tensor.byte_size() <= bytes - offset,
               "a window of {} bytes can't take a tensor of {} at {}", bytes, tensor.byte_size(),
               offset);
}

}  // namespace sluice::distributed
