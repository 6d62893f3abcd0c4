#include "kernels/recurrent/cpu/leaves.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sluice::kernels::recurrent::cpu {
namespace {

bool has_avx512_bf16() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bf16");
}

/// The tile registers hold 8 KB that threads don't carry until the process has asked for them.
bool request_tiles() {
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;  // leaf 7, EDX
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_tiles() {
  static const bool here = has_avx512_bf16() && request_tiles();
  return here;
}

}  // namespace

const Leaf<float>* avx2_leaf_f32() {
  const bool here = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return here ? &kAvx2LeafF32 : nullptr;
}

const Leaf<float>* avx512_leaf_f32() {
  return __builtin_cpu_supports("avx512f") ? &kAvx512LeafF32 : nullptr;
}

const Leaf<base::BFloat16>* avx512_leaf_bf16() {
  return has_avx512_bf16() ? &kAvx512LeafBf16 : nullptr;
}

const Leaf<base::BFloat16>* amx_leaf_bf16() { return has_tiles() ? &kAmxLeafBf16 : nullptr; }

const Leaf<float>* amx_leaf_f32() { return has_tiles() ? &kAmxLeafF32 : nullptr; }

}  // namespace sluice::kernels::recurrent::cpu
