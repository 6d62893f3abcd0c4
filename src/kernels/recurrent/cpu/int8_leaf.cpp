#include "kernels/recurrent/cpu/int8_leaf.h"

#include <fmt/format.h>

#include "base/check.h"
#include "kernels/matmul/cpu/i8_leaf.h"
#include "kernels/recurrent/cpu/leaves.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

namespace i8 = matmul::cpu;
static_assert(kPanel == i8::kI8Panel);

/// A packed matrix in units of the leaf's storage type.
std::int64_t packed_size(std::int64_t units, std::int64_t depth, std::int64_t blocks) {
  return i8::i8_packed_bytes(units, depth, blocks) / static_cast<std::int64_t>(sizeof(float));
}

template <const i8::I8Leaf& kProducts>
void pack(const PackArgs<float>& args) {
  // Canonical weights as they lie: only backward packs others.
  SLUICE_ASSERT(args.depth_stride == 1);
  kProducts.pack({args.source, args.block_stride, args.unit_stride, args.units, args.depth,
                  args.blocks, args.packed, args.panel_begin, args.panel_end,
                  args.row != nullptr ? args.row : args.source,
                  args.row != nullptr ? args.row_depth : args.depth});
}

template <const i8::I8Leaf& kProducts>
void product(const ProductArgs<float>& args) {
  // Buffers have all columns of every panel.
  const std::int64_t columns = args.panel_end * args.blocks * kPanel;
  kProducts.product({args.a, args.a_stride, args.rows, args.depth, args.blocks, args.packed,
                     args.bias, args.accumulate, args.out, args.out_stride, columns,
                     args.panel_begin, args.panel_end});
}

/// The cells of `cells` on products of 8 bits.
template <const i8::I8Leaf& kProducts>
Leaf<float> make_leaf(const Leaf<float>& cells) {
  Leaf<float> leaf = cells;
  leaf.packed_size = packed_size;
  leaf.pack = pack<kProducts>;
  leaf.pack_stored = nullptr;
  leaf.product = product<kProducts>;
  return leaf;
}

template <const i8::I8Leaf& kProducts>
const Leaf<float>* leaf_if(const i8::I8Leaf* products, const Leaf<float>* cells) {
  if (products == nullptr || cells == nullptr) return nullptr;
  static const Leaf<float> leaf = make_leaf<kProducts>(*cells);
  return &leaf;
}

}  // namespace

const Leaf<float>* int8_leaf(Int8Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Int8Isa::kAvx512Vnni:
      return leaf_if<i8::kAvx512VnniI8Leaf>(i8::avx512_vnni_i8_leaf(), avx512_leaf_f32());
    case Int8Isa::kAvxVnni:
      return leaf_if<i8::kAvxVnniI8Leaf>(i8::avx_vnni_i8_leaf(), avx2_leaf_f32());
    case Int8Isa::kAvx2:
      return leaf_if<i8::kAvx2I8Leaf>(i8::avx2_i8_leaf(), avx2_leaf_f32());
    case Int8Isa::kPortable:
      break;
  }
#endif
  if (isa != Int8Isa::kPortable) return nullptr;
  return leaf_if<i8::kPortableI8Leaf>(&i8::kPortableI8Leaf, &portable_leaf<float>());
}

std::optional<std::string> refuse_int8_leaf(Int8Isa isa, std::int64_t depth) {
  if (int8_leaf(isa) == nullptr) {
    return fmt::format("this machine has no {}", isa == Int8Isa::kAvx512Vnni ? "AVX-512 with VNNI"
                                                 : isa == Int8Isa::kAvxVnni  ? "AVX-VNNI"
                                                                             : "AVX2 with FMA");
  }
  if (depth > i8::kI8MostDepth) {
    return fmt::format("it sums up at most {} products, not {}", i8::kI8MostDepth, depth);
  }
  return std::nullopt;
}

}  // namespace sluice::kernels::recurrent::cpu
