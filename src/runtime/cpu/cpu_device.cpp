#include "runtime/cpu/cpu_device.h"

#include <cstring>
#include <new>

#include "base/check.h"
#include "base/shape.h"

namespace sluice::runtime::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

void CpuStream::launch(std::function<void()> kernel) { kernel(); }

void CpuStream::copy(void* destination, const void* source, std::size_t bytes, CopyKind) {
  if (bytes > 0) std::memmove(destination, source, bytes);
}

void CpuStream::fill_zero(void* destination, std::size_t bytes) {
  if (bytes > 0) std::memset(destination, 0, bytes);
}

void* CpuDevice::allocate(std::size_t bytes) {
  void* memory = ::operator new(base::align_up(bytes, 64), kAlignment, std::nothrow);
  if (memory == nullptr) {
    base::fail(ErrorCode::kOutOfMemory, "out of memory: {} bytes on device cpu", bytes);
  }
  return memory;
}

void CpuDevice::deallocate(void* memory, std::size_t) noexcept {
  ::operator delete(memory, kAlignment);
}

}  // namespace sluice::runtime::cpu
