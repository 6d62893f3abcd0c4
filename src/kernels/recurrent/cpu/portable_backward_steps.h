#pragma once

#include "kernels/recurrent/cpu/portable_steps.h"

/// The backward steps of the portable leaf; for portable_leaf.cpp alone.
namespace sluice::kernels::recurrent::cpu::portable {

/// Gate gradients zero; dh goes on to the earlier step as it is.
template <typename T>
void pass_back(const StepBackwardArgs<T>& args, std::int64_t index, std::int64_t blocks) {
  std::fill_n(args.d_gates_input + index * blocks * kPanel, blocks * kPanel, T(0));
  if (args.d_hidden_stride != 0) {
    for (std::int64_t gate = 0; gate < blocks; ++gate) {
      std::fill_n(args.d_gates_hidden + gate * args.d_hidden_stride + index * kPanel, kPanel, T(0));
    }
  } else if (args.d_gates_hidden != nullptr) {
    std::fill_n(args.d_gates_hidden + index * blocks * kPanel, blocks * kPanel, T(0));
  }
  if (args.dh_direct != nullptr) {
    store(args.dh_direct + index * kPanel, load(args.dh + index * kPanel));
  }
}

template <typename T, typename Gate>
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
      const auto gradient = [&](const auto&... peepholes) {
        return lstm_backward<Gate>(load(saved), load(saved + kPanel), load(saved + 2 * kPanel),
                                   load(saved + 3 * kPanel), load(args.c_prev + index * kPanel),
                                   load(args.c + index * kPanel), load(args.dh + index * kPanel),
                                   load(args.dc + index * kPanel), peepholes...);
      };
      const LstmGradient<Value<T>> d =
          args.peepholes ? gradient(peepholes_at<T>(args.peepholes, panel)) : gradient();
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

template <typename T, typename Gate>
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
          gru_backward<Gate>(load(saved), load(saved + kPanel), load(saved + 2 * kPanel),
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

/// Calls body(row, index of its panel) for active rows, and sees to the others.
template <typename T, typename Body>
void for_active(const StepBackwardArgs<T>& args, std::int64_t blocks, const Body& body) {
  const std::int64_t panels = panels_of(args.units);
  for (std::int64_t row = args.row_begin; row < args.row_end; ++row) {
    const bool active = is_active(args.lengths, row, args.t);
    for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      if (active) {
        body(row, row * panels + panel);
      } else {
        pass_back(args, row * panels + panel, blocks);
      }
    }
  }
}

template <typename T>
Value<T> h_prev_of(const StepBackwardArgs<T>& args, std::int64_t row, std::int64_t index) {
  const std::int64_t unit = index % panels_of(args.units) * kPanel;
  return load_part(args.h_prev + row * args.h_prev_stride + unit, args.units - unit);
}

/// A gate's gradient of both products, where gates are multiplied one by one.
template <typename T>
void store_both(const StepBackwardArgs<T>& args, std::int64_t index, std::int64_t gate,
                const Value<T>& value) {
  store_part(args.d_gates_input + (index * 3 + gate) * kPanel, value, kPanel);
  store_part(args.d_gates_hidden + gate * args.d_hidden_stride + index * kPanel, value, kPanel);
}

template <typename T, typename Gate>
void gru_reset_before_step_backward(const StepBackwardArgs<T>& args) {
  for_active(args, 3, [&](std::int64_t row, std::int64_t index) {
    const auto* saved = args.saved + index * 3 * kPanel;
    const GruResetBeforeGradient<Value<T>> d = gru_reset_before_backward<Gate>(
        load(saved + kPanel), load(saved + 2 * kPanel), h_prev_of(args, row, index),
        load(args.dh + index * kPanel));
    store_both(args, index, 1, d.z);
    store_both(args, index, 2, d.n);
    store(args.dh_direct + index * kPanel, d.h_prev);
  });
}

template <typename T, typename Gate>
void reset_backward(const StepBackwardArgs<T>& args) {
  const std::int64_t panels = panels_of(args.units);
  for (std::int64_t row = args.row_begin; row < args.row_end; ++row) {
    if (!is_active(args.lengths, row, args.t)) continue;
    for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      const std::int64_t index = row * panels + panel;
      const ResetGradient<Value<T>> d =
          cpu::reset_backward<Gate>(load(args.saved + index * 3 * kPanel),
                                    h_prev_of(args, row, index), load(args.dh + index * kPanel));
      store_both(args, index, 0, d.r);
      store(args.dh_direct + index * kPanel, d.h);
    }
  }
}

template <typename T, typename Activation>
void rnn_step_backward(const StepBackwardArgs<T>& args) {
  for_active(args, 1, [&](std::int64_t, std::int64_t index) {
    const std::int64_t at = index * kPanel;
    store_part(args.d_gates_input + at,
               Activation::backward(load(args.saved + at), load(args.dh + at)), kPanel);
    if (args.dh_direct != nullptr) store(args.dh_direct + at, Value<T>(0));
  });
}

}  // namespace sluice::kernels::recurrent::cpu::portable
