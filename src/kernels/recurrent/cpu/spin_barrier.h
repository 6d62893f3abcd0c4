#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace sluice::kernels::recurrent::cpu {

/// Lets the threads of one group wait for each other once a time step. Spins, as a step is shorter
/// than a sleep; after a while it yields, so that more threads than cores still get on.
class alignas(64) SpinBarrier {
 public:
  void wait(std::int64_t group_size) {
    if (group_size <= 1) return;
    const std::uint32_t round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == group_size) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int turn = 0; round_.load(std::memory_order_acquire) == round; ++turn) {
      if (turn < kTurnsBeforeYield) {
        __builtin_ia32_pause();
      } else {
        sched_yield();
      }
    }
  }

 private:
  static constexpr int kTurnsBeforeYield = 2000;  // some fifty microseconds

  std::atomic<std::int64_t> arrived_{0};
  std::atomic<std::uint32_t> round_{0};
};

}  // namespace sluice::kernels::recurrent::cpu
