#include <algorithm>

#include "kernels/recurrent/cpu/cells.h"
#include "kernels/recurrent/cpu/leaf.h"
#include "kernels/recurrent/cpu/portable_lanes.h"
#include "kernels/transpose.h"

/// Packed layout: [panel][block][k][16], no padding of the depth. Every sum starts from its initial
/// value and adds k in rising order, one lane an element, so a row's bits depend on nothing else.
namespace sluice::kernels::recurrent::cpu {
namespace portable {
namespace {

template <typename T>
using Value = Lanes<Sum<T>>;

/// Rows that share one read of the weights: what sixteen registers of 16 bytes can hold.
template <typename T>
constexpr int kRowTile = std::is_same_v<T, double> ? 1 : 2;

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

/// sums[row] += a[row, :] * block, where block is [depth][16].
template <typename T, int kRows>
inline void accumulate(const T* a, std::int64_t a_stride, std::int64_t depth, const T* block,
                       Value<T> (&sums)[kRows]) {
  for (std::int64_t k = 0; k < depth; ++k, block += kPanel) {
    const Value<T> weights = load(block);
    for (int row = 0; row < kRows; ++row) {
      sums[row] = sums[row] + Value<T>(static_cast<Sum<T>>(a[row * a_stride + k])) * weights;
    }
  }
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

bool is_active(const std::int32_t* lengths, std::int64_t row, std::int64_t t) {
  return lengths == nullptr || t < lengths[row];
}

/// sums[block][row] = start of the block + h_prev * recurrent weights.
template <typename T, int kBlocks, int kRows>
inline void recurrent_product(const StepArgs<T>& args, std::int64_t row, std::int64_t panel,
                              Value<T> (&sums)[kBlocks][kRows]) {
  for (int block = 0; block < kBlocks; ++block) {
    accumulate<T, kRows>(args.h_prev + row * args.h_prev_stride, args.h_prev_stride, args.depth,
                         args.packed + (panel * kBlocks + block) * args.depth * kPanel,
                         sums[block]);
  }
}

/// Where one row's panel lies in each buffer of a step.
template <typename T>
struct Place {
  Place(const StepArgs<T>& args, std::int64_t row, std::int64_t panel, std::int64_t blocks)
      : units(std::min(kPanel, args.units - panel * kPanel)),
        pre((row * panels_of(args.units) + panel) * blocks * kPanel),
        saved((row * panels_of(args.units) + panel) * 4 * kPanel),
        state((row * panels_of(args.units) + panel) * kPanel),
        h_prev(row * args.h_prev_stride + panel * kPanel),
        h_next(row * args.h_next_stride + panel * kPanel),
        y(row * args.y_stride + panel * kPanel) {}

  std::int64_t units, pre, saved, state, h_prev, h_next, y;
};

template <typename T>
void keep_state(const StepArgs<T>& args, const Place<T>& at) {
  if (args.c_next != nullptr) store(args.c_next + at.state, load(args.c_prev + at.state));
  if (args.y != nullptr) {
    std::copy_n(args.h_prev + at.h_prev, at.units, args.h_next + at.h_next);
    std::fill_n(args.y + at.y, at.units, T(0));
  } else {
    std::fill_n(args.h_next + at.h_next, at.units, T(0));
  }
}

template <typename T>
void store_h(const StepArgs<T>& args, const Place<T>& at, const Value<T>& h) {
  store_part(args.h_next + at.h_next, h, at.units);
  if (args.y != nullptr) store_part(args.y + at.y, h, at.units);
}

template <typename T>
void save(const StepArgs<T>& args, const Place<T>& at, const Value<T>& v0, const Value<T>& v1,
          const Value<T>& v2, const Value<T>& v3) {
  if (args.saved == nullptr) return;
  store(args.saved + at.saved, v0);
  store(args.saved + at.saved + kPanel, v1);
  store(args.saved + at.saved + 2 * kPanel, v2);
  store(args.saved + at.saved + 3 * kPanel, v3);
}

template <typename T, int kRows>
void lstm_tile(const StepArgs<T>& args, std::int64_t first, std::int64_t panel) {
  Value<T> sums[4][kRows];
  for (int i = 0; i < kRows; ++i) {
    const Place<T> at(args, first + i, panel, 4);
    for (int block = 0; block < 4; ++block) {
      sums[block][i] = load(args.pre + at.pre + block * kPanel);
    }
  }
  recurrent_product<T, 4, kRows>(args, first, panel, sums);
  for (int i = 0; i < kRows; ++i) {
    const Place<T> at(args, first + i, panel, 4);
    if (!is_active(args.lengths, first + i, args.t)) {
      keep_state(args, at);
      continue;
    }
    const LstmOut<Value<T>> out =
        lstm_forward(sums[0][i], sums[1][i], sums[2][i], sums[3][i], load(args.c_prev + at.state));
    store(args.c_next + at.state, out.c);
    store_h(args, at, out.h);
    save(args, at, out.i, out.f, out.g, out.o);
  }
}

template <typename T, int kRows>
void gru_tile(const StepArgs<T>& args, std::int64_t first, std::int64_t panel) {
  Value<T> sums[3][kRows];
  for (int i = 0; i < kRows; ++i) {
    const Place<T> at(args, first + i, panel, 3);
    sums[0][i] = load(args.pre + at.pre);
    sums[1][i] = load(args.pre + at.pre + kPanel);
    sums[2][i] = load(args.bias_hn + panel * kPanel);
  }
  recurrent_product<T, 3, kRows>(args, first, panel, sums);
  for (int i = 0; i < kRows; ++i) {
    const Place<T> at(args, first + i, panel, 3);
    if (!is_active(args.lengths, first + i, args.t)) {
      keep_state(args, at);
      continue;
    }
    const GruOut<Value<T>> out =
        gru_forward(sums[0][i], sums[1][i], load(args.pre + at.pre + 2 * kPanel), sums[2][i],
                    load_part(args.h_prev + at.h_prev, at.units));
    store_h(args, at, out.h);
    save(args, at, out.r, out.z, out.n, sums[2][i]);
  }
}

template <typename T>
void lstm_step(const StepArgs<T>& args) {
  constexpr int kTile = kRowTile<T>;
  for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
    std::int64_t row = args.row_begin;
    for (; row + kTile <= args.row_end; row += kTile) lstm_tile<T, kTile>(args, row, panel);
    for (; row < args.row_end; ++row) lstm_tile<T, 1>(args, row, panel);
  }
}

template <typename T>
void gru_step(const StepArgs<T>& args) {
  constexpr int kTile = kRowTile<T>;
  for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
    std::int64_t row = args.row_begin;
    for (; row + kTile <= args.row_end; row += kTile) gru_tile<T, kTile>(args, row, panel);
    for (; row < args.row_end; ++row) gru_tile<T, 1>(args, row, panel);
  }
}

/// Gate gradients zero; dh goes on to the earlier step as it is.
template <typename T>
void pass_back(const StepBackwardArgs<T>& args, std::int64_t index, std::int64_t blocks) {
  std::fill_n(args.d_gates_input + index * blocks * kPanel, blocks * kPanel, T(0));
  if (args.d_gates_hidden != nullptr) {
    std::fill_n(args.d_gates_hidden + index * blocks * kPanel, blocks * kPanel, T(0));
  }
  if (args.dh_direct != nullptr) {
    store(args.dh_direct + index * kPanel, load(args.dh + index * kPanel));
  }
}

template <typename T>
void lstm_step_backward(const StepBackwardArgs<T>& args) {
  const std::int64_t panels = panels_of(args.units);
  for (std::int64_t row = args.row_begin; row < args.row_end; ++row) {
    for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      const std::int64_t index = row * panels + panel;
      if (!is_active(args.lengths, row, args.t)) {
        pass_back(args, index, 4);
        continue;
      }
      const auto* saved = args.saved + index * 4 * kPanel;
      const LstmGradient<Value<T>> d = lstm_backward(
          load(saved), load(saved + kPanel), load(saved + 2 * kPanel), load(saved + 3 * kPanel),
          load(args.c_prev + index * kPanel), load(args.c + index * kPanel),
          load(args.dh + index * kPanel), load(args.dc + index * kPanel));
      T* gates = args.d_gates_input + index * 4 * kPanel;
      store_part(gates, d.i, kPanel);
      store_part(gates + kPanel, d.f, kPanel);
      store_part(gates + 2 * kPanel, d.g, kPanel);
      store_part(gates + 3 * kPanel, d.o, kPanel);
      store(args.dc + index * kPanel, d.c_prev);
      if (args.dh_direct != nullptr) store(args.dh_direct + index * kPanel, Value<T>(0));
    }
  }
}

template <typename T>
void gru_step_backward(const StepBackwardArgs<T>& args) {
  const std::int64_t panels = panels_of(args.units);
  for (std::int64_t row = args.row_begin; row < args.row_end; ++row) {
    for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      const std::int64_t index = row * panels + panel;
      if (!is_active(args.lengths, row, args.t)) {
        pass_back(args, index, 3);
        continue;
      }
      const auto* saved = args.saved + index * 4 * kPanel;
      const Value<T> h_prev = load_part(args.h_prev + row * args.h_prev_stride + panel * kPanel,
                                        args.units - panel * kPanel);
      const GruGradient<Value<T>> d =
          gru_backward(load(saved), load(saved + kPanel), load(saved + 2 * kPanel),
                       load(saved + 3 * kPanel), h_prev, load(args.dh + index * kPanel));
      T* input = args.d_gates_input + index * 3 * kPanel;
      T* hidden = args.d_gates_hidden + index * 3 * kPanel;
      store_part(input, d.r, kPanel);
      store_part(input + kPanel, d.z, kPanel);
      store_part(input + 2 * kPanel, d.n_input, kPanel);
      std::copy_n(input, 2 * kPanel, hidden);
      store_part(hidden + 2 * kPanel, d.n_hidden, kPanel);
      store(args.dh_direct + index * kPanel, d.h_prev);
    }
  }
}

}  // namespace
}  // namespace portable

template <typename T>
const Leaf<T>& portable_leaf() {
  static constexpr Leaf<T> kLeaf{portable::packed_size,         portable::pack<T, Sum<T>>,
                                 portable::pack<T, T>,          portable::transpose<T>,
                                 portable::product<T>,          portable::lstm_step<T>,
                                 portable::gru_step<T>,         portable::lstm_step_backward<T>,
                                 portable::gru_step_backward<T>};
  return kLeaf;
}

template const Leaf<double>& portable_leaf<double>();
template const Leaf<float>& portable_leaf<float>();
template const Leaf<base::BFloat16>& portable_leaf<base::BFloat16>();

}  // namespace sluice::kernels::recurrent::cpu
