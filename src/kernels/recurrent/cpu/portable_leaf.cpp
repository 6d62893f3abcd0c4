#include "kernels/recurrent/cpu/portable_backward_steps.h"
#include "kernels/transpose.h"

/// Packed layout: [panel][block][k][16], no padding of the depth. Every sum starts from its initial
/// value and adds k in rising order, one lane an element, so a row's bits depend on nothing else.
namespace sluice::kernels::recurrent::cpu {
namespace portable {
namespace {

std::int64_t packed_size(std::int64_t units, std::int64_t depth, std::int64_t blocks) {
  return panels_of(units) * blocks * depth * kPanel;
}

template <typename T, typename Source>
void pack(const PackArgs<T, Source>& args) {
  T* target = args.packed + args.panel_begin * args.blocks * args.depth * kPanel;
  for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
    for (std::int64_t block = 0; block < args.blocks; ++block) {
      for (std::int64_t k = 0; k < args.depth; ++k) {
        for (std::int64_t unit = panel * kPanel; unit < (panel + 1) * kPanel; ++unit) {
          const std::int64_t at =
              block * args.block_stride + unit * args.unit_stride + k * args.depth_stride;
          *target++ =
              unit < args.units ? static_cast<T>(static_cast<Sum<T>>(args.source[at])) : T(0);
        }
      }
    }
  }
}

/// Bits are moved, whatever they mean.
template <typename T>
void transpose(const TransposeArgs<T>& args) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  transpose_all<16 / sizeof(T)>(reinterpret_cast<const Bits*>(args.from), args.from_stride,
                                args.depth, args.columns, reinterpret_cast<Bits*>(args.to),
                                args.to_stride);
}

template <typename T, int kRows>
void product_tile(const ProductArgs<T>& args, std::int64_t row, std::int64_t panel,
                  std::int64_t block) {
  const std::int64_t index = panel * args.blocks + block;
  Value<T> sums[kRows];
  for (int i = 0; i < kRows; ++i) {
    if (args.accumulate) {
      sums[i] = load(args.out + (row + i) * args.out_stride + index * kPanel);
    } else {
      sums[i] = args.bias ? load(args.bias + index * kPanel) : Value<T>(0);
    }
  }
  accumulate<T, kRows>(args.a + row * args.a_stride, args.a_stride, args.depth,
                       args.packed + index * args.depth * kPanel, sums);
  for (int i = 0; i < kRows; ++i) {
    store(args.out + (row + i) * args.out_stride + index * kPanel, sums[i]);
  }
}

template <typename T>
void product(const ProductArgs<T>& args) {
  constexpr int kTile = kRowTile<T>;
  for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
    for (std::int64_t block = 0; block < args.blocks; ++block) {
      std::int64_t row = 0;
      for (; row + kTile <= args.rows; row += kTile) {
        product_tile<T, kTile>(args, row, panel, block);
      }
      for (; row < args.rows; ++row) product_tile<T, 1>(args, row, panel, block);
    }
  }
}

template <typename T, typename Gate>
constexpr Leaf<T> kLeaf{packed_size,
                        pack<T, Sum<T>>,
                        pack<T, T>,
                        transpose<T>,
                        product<T>,
                        {lstm_step<T, Gate>, lstm_step_backward<T, Gate>},
                        {gru_step<T, Gate>, gru_step_backward<T, Gate>},
                        {gru_reset_before_step<T, Gate>, gru_reset_before_step_backward<T, Gate>},
                        {rnn_step<T, RnnTanh>, rnn_step_backward<T, RnnTanh>},
                        {rnn_step<T, RnnRelu>, rnn_step_backward<T, RnnRelu>},
                        {reset<T, Gate>, reset_backward<T, Gate>}};

}  // namespace
}  // namespace portable

template <typename T>
const Leaf<T>& portable_leaf() {
  return portable::kLeaf<T, Logistic>;
}

template <typename T>
const Leaf<T>& portable_hard_leaf() {
  return portable::kLeaf<T, HardSigmoid>;
}

template const Leaf<double>& portable_leaf<double>();
template const Leaf<float>& portable_leaf<float>();
template const Leaf<base::BFloat16>& portable_leaf<base::BFloat16>();
template const Leaf<double>& portable_hard_leaf<double>();
template const Leaf<float>& portable_hard_leaf<float>();
template const Leaf<base::BFloat16>& portable_hard_leaf<base::BFloat16>();

}  // namespace sluice::kernels::recurrent::cpu
