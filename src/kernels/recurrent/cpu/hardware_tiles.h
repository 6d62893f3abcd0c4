#pragma once

#include <cstdint>

#include "kernels/recurrent/cpu/amx_body.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

/// The tile registers themselves. The compiler doesn't know them, hence volatile and the clobbers,
/// which keep loads and stores of the memory behind them in order.
class HardwareTiles {
 public:
  HardwareTiles() = default;
  HardwareTiles(const HardwareTiles&) = delete;
  HardwareTiles& operator=(const HardwareTiles&) = delete;
  ~HardwareTiles() { asm volatile("tilerelease" ::: "memory"); }

  void configure(const TileConfig& config) {
    asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
  }
  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  void load(const void* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  void store(void* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kSum, int kA, int kB>
  void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
};

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
