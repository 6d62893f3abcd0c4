#include "allocation_watch.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> held{0};
std::atomic<std::size_t> most_held{0};

void* take_if_there(std::size_t size) noexcept {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) return nullptr;
  const std::size_t now = held += malloc_usable_size(memory);
  if (now > most_held) most_held = now;
  return memory;
}

void* take(std::size_t size) {
  void* memory = take_if_there(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void give_back(void* memory) noexcept {
  if (memory != nullptr) held -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return take(size); }
void* operator new[](std::size_t size) { return take(size); }
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return take_if_there(size);
}
void* operator new[](std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return take_if_there(size);
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { give_back(memory); }
void operator delete[](void* memory, std::size_t /*size*/) noexcept { give_back(memory); }

namespace sluice::io {

AllocationWatch::AllocationWatch() : at_start_(held) { most_held = at_start_; }

std::size_t AllocationWatch::peak() const { return most_held - at_start_; }

}  // namespace sluice::io
