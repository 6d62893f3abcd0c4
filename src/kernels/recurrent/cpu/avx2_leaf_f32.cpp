#include "kernels/recurrent/cpu/leaf_body.h"
#include "kernels/recurrent/cpu/leaves.h"
#include "kernels/recurrent/cpu/vector_avx2.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

struct Isa {
  using T = float;
  using Vector = Avx2Vector;
  static constexpr int kStep = 1;
  static constexpr int kDepthUnit = 1;
  static constexpr bool kBlocksApart = true;
  static constexpr int kPrefetchLevel = 2;
  static constexpr int kRegisters = 16;
  static constexpr int kVectorRegisters = 2;
  static constexpr int kTileColumns = 1;
  static constexpr std::int64_t kGoodRows = 128;
  static constexpr std::int64_t kOwnRows = 64;

  static __m256 broadcast(const float* a) { return _mm256_broadcast_ss(a); }
  static Vector weights(const float* packed) { return Vector::load(packed); }
  static Vector multiply_add(__m256 a, Vector w, Vector sum) {
    return {_mm256_fmadd_ps(a, w.low, sum.low), _mm256_fmadd_ps(a, w.high, sum.high)};
  }
  static Vector load(const float* from, int count) { return Vector::load(from, count); }
  static void store(float* to, Vector value, int count) { value.store(to, count); }
  static void store_packed(float* to, const float* row) { Vector::load(row).store(to); }
};

}  // namespace

const Leaf<float> kAvx2LeafF32 = LeafBody<Isa>::kLeaf;

}  // namespace sluice::kernels::recurrent::cpu
