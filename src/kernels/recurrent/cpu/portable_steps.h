#pragma once

#include <algorithm>

#include "kernels/recurrent/cpu/cells.h"
#include "kernels/recurrent/cpu/leaf.h"
#include "kernels/recurrent/cpu/portable_lanes.h"

/// The forward steps of the portable leaf; for portable_leaf.cpp alone.
namespace sluice::kernels::recurrent::cpu::portable {

template <typename T>
using Value = Lanes<Sum<T>>;

/// Rows that share one read of the weights: what sixteen registers of 16 bytes can hold.
template <typename T>
constexpr int kRowTile = std::is_same_v<T, double> ? 1 : 2;

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

inline bool is_active(const std::int32_t* lengths, std::int64_t row, std::int64_t t) {
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
        state((row * panels_of(args.units) + panel) * kPanel),
        h_prev(row * args.h_prev_stride + panel * kPanel),
        h_next(row * args.h_next_stride + panel * kPanel),
        y(row * args.y_stride + panel * kPanel) {}

  std::int64_t units, pre, state, h_prev, h_next, y;
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

template <typename T, typename... Values>
void save(const StepArgs<T>& args, const Place<T>& at, const Values&... values) {
  if (args.saved == nullptr) return;
  auto* saved = args.saved + at.state * static_cast<std::int64_t>(sizeof...(values));
  ((store(saved, values), saved += kPanel), ...);
}

template <typename T>
void store_lstm(const StepArgs<T>& args, const Place<T>& at, const LstmOut<Value<T>>& out) {
  store(args.c_next + at.state, out.c);
  store_h(args, at, out.h);
  save(args, at, out.i, out.f, out.g, out.o);
}

template <typename T, typename Gate>
void finish_gru(const StepArgs<T>& args, const Place<T>& at, const Value<T>& r, const Value<T>& z,
                const Value<T>& n_hidden) {
  const GruOut<Value<T>> out =
      gru_forward<Gate>(r, z, load(args.pre + at.pre + 2 * kPanel), n_hidden,
                        load_part(args.h_prev + at.h_prev, at.units));
  store_h(args, at, out.h);
  save(args, at, out.r, out.z, out.n, n_hidden);
}

/// Of [panels, 3, 16].
template <typename T>
Peepholes<Value<T>> peepholes_at(const Sum<T>* weights, std::int64_t panel) {
  const Sum<T>* at = weights + panel * 3 * kPanel;
  return {load(at), load(at + kPanel), load(at + 2 * kPanel)};
}

template <typename T, typename Gate, int kRows>
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
    store_lstm(args, at,
               lstm_forward<Gate>(sums[0][i], sums[1][i], sums[2][i], sums[3][i],
                                  load(args.c_prev + at.state)));
  }
}

template <typename T, typename Gate, int kRows>
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
    finish_gru<T, Gate>(args, at, sums[0][i], sums[1][i], sums[2][i]);
  }
}

/// Calls finish(at, panel, sum) for every panel of active rows, where sum(gate) is the gate's whole
/// sum, for the recurrent product is there.
template <typename T, typename Finish>
void for_multiplied(const StepArgs<T>& args, std::int64_t blocks, const Finish& finish) {
  for (std::int64_t row = args.row_begin; row < args.row_end; ++row) {
    for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      const Place<T> at(args, row, panel, blocks);
      if (!is_active(args.lengths, row, args.t)) {
        keep_state(args, at);
        continue;
      }
      finish(at, panel, [&](std::int64_t gate) {
        return load(args.pre + at.pre + gate * kPanel) +
               load(args.recurrent + at.pre + gate * kPanel);
      });
    }
  }
}

template <typename T, typename Gate>
void multiplied_lstm(const StepArgs<T>& args) {
  for_multiplied(args, 4, [&](const Place<T>& at, std::int64_t panel, const auto& sum) {
    const Value<T> c = load(args.c_prev + at.state);
    if (args.peepholes == nullptr) {
      return store_lstm(args, at, lstm_forward<Gate>(sum(0), sum(1), sum(2), sum(3), c));
    }
    store_lstm(args, at,
               lstm_forward<Gate>(sum(0), sum(1), sum(2), sum(3), c,
                                  peepholes_at<T>(args.peepholes, panel)));
  });
}

template <typename T, typename Gate>
void multiplied_gru(const StepArgs<T>& args) {
  for_multiplied(args, 3, [&](const Place<T>& at, std::int64_t panel, const auto& sum) {
    finish_gru<T, Gate>(
        args, at, sum(0), sum(1),
        load(args.bias_hn + panel * kPanel) + load(args.recurrent + at.pre + 2 * kPanel));
  });
}

/// A row of a plain RNN, from its sum.
template <typename T, typename Activation>
void finish_rnn(const StepArgs<T>& args, const Place<T>& at, const Value<T>& sum) {
  const Value<T> h = Activation::forward(sum);
  store_h(args, at, h);
  save(args, at, h);
}

template <typename T, typename Activation, int kRows>
void rnn_tile(const StepArgs<T>& args, std::int64_t first, std::int64_t panel) {
  Value<T> sums[1][kRows];
  for (int i = 0; i < kRows; ++i) {
    sums[0][i] = load(args.pre + Place<T>(args, first + i, panel, 1).pre);
  }
  recurrent_product<T, 1, kRows>(args, first, panel, sums);
  for (int i = 0; i < kRows; ++i) {
    const Place<T> at(args, first + i, panel, 1);
    if (is_active(args.lengths, first + i, args.t)) {
      finish_rnn<T, Activation>(args, at, sums[0][i]);
    } else {
      keep_state(args, at);
    }
  }
}

template <typename T, typename Activation>
void rnn_step(const StepArgs<T>& args) {
  if (args.recurrent != nullptr) {
    return for_multiplied(args, 1, [&](const Place<T>& at, std::int64_t, const auto& sum) {
      finish_rnn<T, Activation>(args, at, sum(0));
    });
  }
  constexpr int kTile = kRowTile<T>;
  for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
    std::int64_t row = args.row_begin;
    for (; row + kTile <= args.row_end; row += kTile) {
      rnn_tile<T, Activation, kTile>(args, row, panel);
    }
    for (; row < args.row_end; ++row) rnn_tile<T, Activation, 1>(args, row, panel);
  }
}

/// As for_multiplied, where gates have been multiplied one by one.
template <typename T, typename Finish>
void for_parts(const StepArgs<T>& args, const Finish& finish) {
  for_multiplied(args, 3, [&](const Place<T>& at, std::int64_t, const auto&) {
    finish(at, [&](std::int64_t gate) {
      return load(args.pre + at.pre + gate * kPanel) +
             load(args.recurrent + gate * args.recurrent_stride + at.state);
    });
  });
}

template <typename T, typename Gate>
void reset(const StepArgs<T>& args) {
  for_parts(args, [&](const Place<T>& at, const auto& sum) {
    store_h(args, at, Gate::value(sum(0)) * load_part(args.h_prev + at.h_prev, at.units));
  });
}

template <typename T, typename Gate>
void gru_reset_before_step(const StepArgs<T>& args) {
  for_parts(args, [&](const Place<T>& at, const auto& sum) {
    const GruOut<Value<T>> out = gru_reset_before_forward<Gate>(
        sum(0), sum(1), sum(2), load_part(args.h_prev + at.h_prev, at.units));
    store_h(args, at, out.h);
    save(args, at, out.r, out.z, out.n);
  });
}

template <typename T, typename Gate>
void lstm_step(const StepArgs<T>& args) {
  if (args.recurrent != nullptr) return multiplied_lstm<T, Gate>(args);
  constexpr int kTile = kRowTile<T>;
  for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
    std::int64_t row = args.row_begin;
    for (; row + kTile <= args.row_end; row += kTile) lstm_tile<T, Gate, kTile>(args, row, panel);
    for (; row < args.row_end; ++row) lstm_tile<T, Gate, 1>(args, row, panel);
  }
}

template <typename T, typename Gate>
void gru_step(const StepArgs<T>& args) {
  if (args.recurrent != nullptr) return multiplied_gru<T, Gate>(args);
  constexpr int kTile = kRowTile<T>;
  for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
    std::int64_t row = args.row_begin;
    for (; row + kTile <= args.row_end; row += kTile) gru_tile<T, Gate, kTile>(args, row, panel);
    for (; row < args.row_end; ++row) gru_tile<T, Gate, 1>(args, row, panel);
  }
}

}  // namespace sluice::kernels::recurrent::cpu::portable
