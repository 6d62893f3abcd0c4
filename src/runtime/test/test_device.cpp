#include "runtime/test/test_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/shape.h"

namespace sluice::runtime::test {

GuardedMemory::~GuardedMemory() {
  for (const auto& [memory, bytes] : regions_) ::munmap(memory, bytes);
}

void* GuardedMemory::allocate(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t mapped = base::align_up(bytes > 0 ? bytes : 1, page);
  const std::lock_guard lock(mutex_);
  void* memory = MAP_FAILED;
  if (mapped <= free_) {
    memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) {
    base::fail(ErrorCode::kOutOfMemory, "out of memory: {} bytes on device test", bytes);
  }
  std::memset(memory, 0xff, mapped);  // all bits set is a NaN in every float type
  free_ -= mapped;
  if (!is_open_) ::mprotect(memory, mapped, PROT_NONE);
  regions_.emplace(memory, mapped);
  return memory;
}

void GuardedMemory::deallocate(void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto region = regions_.find(memory);
  if (region == regions_.end()) return;
  ::munmap(memory, region->second);
  free_ += region->second;
  regions_.erase(region);
}

std::size_t GuardedMemory::free_bytes() {
  const std::lock_guard lock(mutex_);
  return free_;
}

void GuardedMemory::open() {
  const std::lock_guard lock(mutex_);
  is_open_ = true;
  protect(PROT_READ | PROT_WRITE);
}

void GuardedMemory::close() {
  const std::lock_guard lock(mutex_);
  protect(PROT_NONE);
  is_open_ = false;
}

void GuardedMemory::protect(int protection) {
  for (const auto& [memory, bytes] : regions_) {
    SLUICE_ASSERT(::mprotect(memory, bytes, protection) == 0);
  }
}

namespace {

class TestGraph final : public Graph {
 public:
  using Work = std::vector<std::function<void()>>;
  explicit TestGraph(std::shared_ptr<const Work> work) : work_(std::move(work)) {}

  void launch(Stream& stream) override {
    stream.launch([work = work_] {
      for (const std::function<void()>& piece : *work) piece();
    });
  }

 private:
  std::shared_ptr<const Work> work_;
};

}  // namespace

TestStream::TestStream(GuardedMemory& memory) : memory_(memory), worker_([this] { work_loop(); }) {}

TestStream::~TestStream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void TestStream::launch(std::function<void()> kernel) { enqueue(std::move(kernel)); }

void TestStream::copy(void* destination, const void* source, std::size_t bytes, CopyKind kind) {
  if (kind != CopyKind::kDeviceToDevice) forbid_in_capture("copies from or to the host");
  enqueue([=] {
    if (bytes > 0) std::memmove(destination, source, bytes);
  });
}

void TestStream::upload(void* destination, const void* source, std::size_t bytes) {
  forbid_in_capture("copies from the host");
  const auto* from = static_cast<const std::byte*>(source);
  enqueue([destination, content = std::vector<std::byte>(from, from + bytes)] {
    if (!content.empty()) std::memcpy(destination, content.data(), content.size());
  });
}

void TestStream::fill_zero(void* destination, std::size_t bytes) {
  enqueue([=] {
    if (bytes > 0) std::memset(destination, 0, bytes);
  });
}

std::unique_ptr<Graph> TestStream::capture(const std::function<void()>& work) {
  SLUICE_ASSERT(!recorded_);
  recorded_ = std::make_shared<TestGraph::Work>();
  forbidden_ = nullptr;
  try {
    work();
  } catch (...) {
    recorded_ = nullptr;
    throw;
  }
  const auto recorded = std::exchange(recorded_, nullptr);
  if (forbidden_ != nullptr) {
    base::fail(ErrorCode::kUnsupported, "work that {} can't be captured", forbidden_);
  }
  return std::make_unique<TestGraph>(recorded);
}

void TestStream::forbid_in_capture(const char* what) {
  if (recorded_ && forbidden_ == nullptr) forbidden_ = what;
}

void TestStream::synchronize() {
  forbid_in_capture("waits");
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void TestStream::enqueue(std::function<void()> work) {
  if (recorded_) return recorded_->push_back(std::move(work));
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void TestStream::work_loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    memory_.open();
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    memory_.close();
    lock.lock();
    busy_ = false;
    if (error && !error_) error_ = error;
    changed_.notify_all();
  }
}

void* TestDevice::allocate(std::size_t bytes) {
  stream_.forbid_in_capture("takes memory");
  return memory_.allocate(bytes);
}

void TestDevice::deallocate(void* memory, std::size_t) noexcept {
  stream_.forbid_in_capture("frees memory");
  try {
    stream_.synchronize();
  } catch (...) {
    // The error belongs to whoever synchronises next; freeing must not throw.
  }
  memory_.deallocate(memory);
}

}  // namespace sluice::runtime::test
