#include "kernels/matmul/cpu/i8_body.h"

namespace sluice::kernels::matmul::cpu {
namespace {

struct Isa {
  static constexpr int kLanes = 4, kStep = 1, kOffset = 0;
  static constexpr int kRows = 2, kColumns = 4, kAlone = 4;
  using Element = std::int32_t;
  typedef std::int32_t Ints __attribute__((vector_size(16)));
  typedef float Floats __attribute__((vector_size(16)));
  using Word = Ints;

  static Word broadcast(const Element* a) { return Ints{} + *a; }
  static Word weights(const std::int8_t* packed) {
    return Word{packed[0], packed[1], packed[2], packed[3]};
  }
  static Ints multiply_add(Word a, Word w, Ints sum) { return sum + a * w; }
  static void put(Ints values, Element* to) { __builtin_memcpy(to, &values, sizeof values); }
};

}  // namespace

const I8Leaf kPortableI8Leaf = I8Body<Isa>::leaf();

}  // namespace sluice::kernels::matmul::cpu
