#include "distributed/threads/thread_window.h"

#include <cstring>
#include <utility>

namespace sluice::distributed::threads {
namespace {

using runtime::Context;
using runtime::Tensor;

struct Unlock {
  Locks& locks;
  std::int64_t owner;
  ~Unlock() { locks.unlock(owner); }
};

class ThreadWindow final : public Window {
 public:
  ThreadWindow(std::shared_ptr<Locks> locks, std::shared_ptr<Shared> shared)
      : locks_(std::move(locks)), shared_(std::move(shared)) {}

  void lock(std::int64_t owner) override { locks_->lock(owner); }
  void finish() override {}  // whoever has the memory last gives it back
  void unlock(const Context& context, std::int64_t owner) override {
    const Unlock at_end{*locks_, owner};
    context.synchronize();
  }
  void get(const Context& context, std::int64_t owner, std::size_t offset,
           const Tensor& to) override {
    context.stream().launch([shared = shared_, from = place(owner, offset, to), to] {
      std::memcpy(to.data(), from, to.byte_size());
    });
  }
  void put(const Context& context, std::int64_t owner, std::size_t offset,
           const Tensor& from) override {
    context.stream().launch([shared = shared_, to = place(owner, offset, from), from] {
      std::memcpy(to, from.data(), from.byte_size());
    });
  }
  std::int64_t add(std::size_t number, std::int64_t amount) override {
    return shared_->numbers.at(number).fetch_add(amount);
  }

 private:
  std::byte* place(std::int64_t owner, std::size_t offset, const Tensor& tensor) const {
    std::vector<std::byte>& memory = shared_->memory.at(static_cast<std::size_t>(owner));
    check_in_window(tensor, offset, memory.size());
    return memory.data() + offset;
  }

  std::shared_ptr<Locks> locks_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace

std::unique_ptr<Window> make_window(std::shared_ptr<Locks> locks, std::shared_ptr<Shared> shared) {
  return std::make_unique<ThreadWindow>(std::move(locks), std::move(shared));
}

}  // namespace sluice::distributed::threads
