#include "kernels/recurrent/cpu/leaf_body.h"
#include "kernels/recurrent/cpu/leaves.h"
#include "kernels/recurrent/cpu/vector_avx2.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

struct Isa {
  using T = float;
  using Vector = Avx2Vector;
  using Word = Avx2Vector;
  static constexpr int kStep = 1;
  static constexpr int kDepthUnit = 1;
  static constexpr int kRegisters = 16;

  static Word broadcast(const float* a) { return Word(*a); }
  static Word weights(const float* packed) { return Word::load(packed); }
  static Vector multiply_add(Word a, Word w, Vector sum) {
    return recurrent::cpu::multiply_add(a, w, sum);
  }
  static Vector load(const float* from, int count) { return Vector::load(from, count); }
  static void store(float* to, Vector value, int count) { value.store(to, count); }
  static void store_packed(float* to, const float* row) {
    Vector::load(row).store(to);
    Vector::load(row + Vector::kWidth).store(to + Vector::kWidth);
  }
};

}  // namespace

const Leaf<float> kAvx2LeafF32 = LeafBody<Isa>::kLeaf;

}  // namespace sluice::kernels::recurrent::cpu
