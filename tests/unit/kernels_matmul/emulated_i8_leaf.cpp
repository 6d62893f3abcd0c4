#include "unit/kernels_matmul/emulated_i8_leaf.h"

#include <array>

#include "kernels/matmul/cpu/i8_body.h"

namespace sluice::kernels::matmul::cpu {
namespace {

struct Isa {
  static constexpr int kLanes = 4, kStep = 4, kOffset = 128;
  static constexpr int kRows = 6, kColumns = 4, kAlone = 8;
  using Element = std::uint8_t;
  typedef std::int32_t Ints __attribute__((vector_size(16)));
  typedef float Floats __attribute__((vector_size(16)));
  using Word = std::array<std::uint8_t, 16>;

  static Word broadcast(const Element* a) {
    Word word;
    for (std::size_t i = 0; i < word.size(); ++i) word[i] = a[i % 4];
    return word;
  }
  static Word weights(const std::int8_t* packed) {
    Word word;
    __builtin_memcpy(&word, packed, sizeof word);
    return word;
  }
  static Ints multiply_add(const Word& a, const Word& w, Ints sum) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      sum[static_cast<int>(i / 4)] += a[i] * static_cast<std::int8_t>(w[i]);
    }
    return sum;
  }
  static void put(Ints values, Element* to) {
    for (int i = 0; i < kLanes; ++i) to[i] = static_cast<Element>(values[i]);
  }
};

}  // namespace

const I8Leaf& emulated_vnni_leaf() {
  static constexpr I8Leaf kLeaf = I8Body<Isa>::leaf();
  return kLeaf;
}

}  // namespace sluice::kernels::matmul::cpu
