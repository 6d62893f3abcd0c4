#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

/// Memory whose end borders on a page that nothing may touch, so that a read or write past the last
/// element is a fault.
namespace sluice::testing {

template <typename T>
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::int64_t count) : count_(count) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    const std::size_t used = (bytes + page - 1) / page * page;
    mapped_ = used + page;
    base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(static_cast<char*>(base_) + used, page, PROT_NONE);
    data_ = reinterpret_cast<T*>(static_cast<char*>(base_) + used - bytes);
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { munmap(base_, mapped_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::int64_t size() const { return count_; }
  T& operator[](std::int64_t i) { return data_[i]; }
  const T& operator[](std::int64_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + count_; }

 private:
  std::int64_t count_;
  std::size_t mapped_ = 0;
  void* base_ = nullptr;
  T* data_ = nullptr;
};

}  // namespace sluice::testing
