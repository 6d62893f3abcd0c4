#pragma once

#include "kernels/recurrent/cpu/leaf_jobs.h"

/// The cells of a backward step, panel by panel.
namespace sluice::kernels::recurrent::cpu {

/// Where one panel of a row lies in each buffer of a backward step.
template <class Isa, int kGates, int kSaved>
struct BackwardPlace {
  using T = typename Isa::T;
  using Vector = typename Isa::Vector;

  std::int64_t row, unit, state, saved, gates;
  int lanes;

  BackwardPlace(const StepBackwardArgs<T>& args, std::int64_t at_row, std::int64_t panel)
      : row(at_row), unit(panel * kPanel) {
    const std::int64_t index = row * panels_of(args.units) + panel;
    state = index * kPanel;
    saved = index * kSaved * kPanel;
    gates = index * kGates * kPanel;
    lanes = lanes_of(args.units, panel);
  }

  /// Zero past the units, whatever the buffers held there.
  void store(T* gradients, int gate, Vector value) const {
    Isa::store(gradients + gates + gate * kPanel, value.keep(lanes), static_cast<int>(kPanel));
  }
  /// A gate's gradient of both products, where gates are multiplied one by one.
  void store_part(const StepBackwardArgs<T>& args, int gate, Vector value) const {
    T* hidden = args.d_gates_hidden + gate * args.d_hidden_stride;
    Isa::store(hidden + state, value.keep(lanes), static_cast<int>(kPanel));
  }
  void store_both(const StepBackwardArgs<T>& args, int gate, Vector value) const {
    store(args.d_gates_input, gate, value);
    store_part(args, gate, value);
  }
  Vector h_prev(const StepBackwardArgs<T>& args) const {
    return Isa::load(args.h_prev + row * args.h_prev_stride + unit, lanes);
  }
  Vector load(const float* from, int gate = 0) const {
    return Vector::load(from + gate * kPanel, lanes);
  }
};

template <class Isa, bool kPeepholes>
struct LstmBackwardJob {
  using T = typename Isa::T;
  using Vector = typename Isa::Vector;
  using Place = BackwardPlace<Isa, 4, 4>;

  static LstmGradient<Vector> gradient(const StepBackwardArgs<T>& args, const Place& at) {
    const float* saved = args.saved + at.saved;
    const auto of = [&](const auto&... peepholes) __attribute__((always_inline)) {
      return lstm_backward(at.load(saved, 0), at.load(saved, 1), at.load(saved, 2),
                           at.load(saved, 3), at.load(args.c_prev + at.state),
                           at.load(args.c + at.state), at.load(args.dh + at.state),
                           at.load(args.dc + at.state), peepholes...);
    };
    if constexpr (kPeepholes) {
      return of(peepholes_at<Vector>(args.peepholes, at.unit / kPanel));
    } else {
      return of();
    }
  }

  static void run(const StepBackwardArgs<T>& args, const Place& at) {
    const LstmGradient<Vector> d = gradient(args, at);
    at.store(args.d_gates_input, 0, d.i);
    at.store(args.d_gates_input, 1, d.f);
    at.store(args.d_gates_input, 2, d.g);
    at.store(args.d_gates_input, 3, d.o);
    d.c_prev.keep(at.lanes).store(args.dc + at.state);
    if (args.dh_direct != nullptr) Vector(0.0f).store(args.dh_direct + at.state);
  }
};

template <class Isa>
struct GruBackwardJob {
  using T = typename Isa::T;
  using Vector = typename Isa::Vector;
  using Place = BackwardPlace<Isa, 3, 4>;

  static void run(const StepBackwardArgs<T>& args, const Place& at) {
    const float* saved = args.saved + at.saved;
    const GruGradient<Vector> d =
        gru_backward(at.load(saved, 0), at.load(saved, 1), at.load(saved, 2), at.load(saved, 3),
                     at.h_prev(args), at.load(args.dh + at.state));
    at.store(args.d_gates_input, 0, d.r);
    at.store(args.d_gates_input, 1, d.z);
    at.store(args.d_gates_input, 2, d.n_input);
    at.store(args.d_gates_hidden, 0, d.r);
    at.store(args.d_gates_hidden, 1, d.z);
    at.store(args.d_gates_hidden, 2, d.n_hidden);
    d.h_prev.keep(at.lanes).store(args.dh_direct + at.state);
  }
};

template <class Isa>
struct GruResetBeforeBackwardJob {
  using T = typename Isa::T;
  using Place = BackwardPlace<Isa, 3, 3>;

  static void run(const StepBackwardArgs<T>& args, const Place& at) {
    const float* saved = args.saved + at.saved;
    const auto d = gru_reset_before_backward(at.load(saved, 1), at.load(saved, 2), at.h_prev(args),
                                             at.load(args.dh + at.state));
    at.store_both(args, 1, d.z);
    at.store_both(args, 2, d.n);
    d.h_prev.keep(at.lanes).store(args.dh_direct + at.state);
  }
};

/// What it leaves open, for active rows.
template <class Isa>
struct ResetBackwardJob {
  using T = typename Isa::T;
  using Place = BackwardPlace<Isa, 3, 3>;

  static void run(const StepBackwardArgs<T>& args, const Place& at) {
    const auto d = reset_backward(at.load(args.saved + at.saved, 0), at.h_prev(args),
                                  at.load(args.dh + at.state));
    at.store_both(args, 0, d.r);
    d.h.keep(at.lanes).store(args.dh_direct + at.state);
  }
};

template <class Isa, class Activation>
struct RnnBackwardJob {
  using T = typename Isa::T;
  using Vector = typename Isa::Vector;
  using Place = BackwardPlace<Isa, 1, 1>;

  static void run(const StepBackwardArgs<T>& args, const Place& at) {
    at.store(args.d_gates_input, 0,
             Activation::backward(at.load(args.saved + at.saved), at.load(args.dh + at.state)));
    if (args.dh_direct != nullptr) Vector(0.0f).store(args.dh_direct + at.state);
  }
};

/// Gate gradients zero; dc stays, dh goes on to the earlier step as it is.
template <class Isa, int kGates, int kSaved>
void skip_backward(const StepBackwardArgs<typename Isa::T>& args,
                   const BackwardPlace<Isa, kGates, kSaved>& at) {
  using Vector = typename Isa::Vector;
  for (int gate = 0; gate < kGates; ++gate) {
    at.store(args.d_gates_input, gate, Vector(0.0f));
    if (args.d_hidden_stride != 0) {
      at.store_part(args, gate, Vector(0.0f));
    } else if (args.d_gates_hidden != nullptr) {
      at.store(args.d_gates_hidden, gate, Vector(0.0f));
    }
  }
  if (args.dh_direct != nullptr) {
    at.load(args.dh + at.state).store(args.dh_direct + at.state);
  }
}

/// Calls body(place, whether the row is active) for every panel of every row.
template <class Isa, class Job, class Body>
void each_place(const StepBackwardArgs<typename Isa::T>& args, const Body& body) {
  for (std::int64_t row = args.row_begin; row < args.row_end; ++row) {
    const bool active = args.lengths == nullptr || args.t < args.lengths[row];
    for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      body(typename Job::Place(args, row, panel), active);
    }
  }
}

template <class Isa, class Job>
void run_backward(const StepBackwardArgs<typename Isa::T>& args) {
  each_place<Isa, Job>(args, [&](const typename Job::Place& at, bool active) {
    if (active) {
      Job::run(args, at);
    } else {
      skip_backward(args, at);
    }
  });
}

template <class Isa>
void run_reset_backward(const StepBackwardArgs<typename Isa::T>& args) {
  using Job = ResetBackwardJob<Isa>;
  each_place<Isa, Job>(args, [&](const typename Job::Place& at, bool active) {
    if (active) Job::run(args, at);
  });
}

}  // namespace sluice::kernels::recurrent::cpu
