#pragma once

#include "kernels/recurrent/cpu/cells.h"
#include "kernels/recurrent/cpu/leaf.h"
#include "kernels/recurrent/cpu/leaf_tile.h"

/// What a tile's sums start from and where they go: the product and the cells (see leaf_tile.h).
namespace sluice::kernels::recurrent::cpu {

/// How many of a panel's lanes hold units.
constexpr int lanes_of(std::int64_t units, std::int64_t panel) {
  return static_cast<int>(smaller_of(units - panel * kPanel, kPanel));
}

/// Rows of floats; `first` is null for zeros.
struct StartRows {
  const float* first;
  std::int64_t stride;
};

template <class Isa, int kBlockCount>
struct ProductJob {
  using T = typename Isa::T;
  using Vector = typename Isa::Vector;
  static constexpr int kBlocks = kBlockCount;
  static constexpr bool kDirect = true;

  const ProductArgs<T>& args;

  const T* input(std::int64_t row) const { return args.a + row * args.a_stride; }
  std::int64_t depth() const { return args.depth; }
  const T* packed() const { return args.packed; }
  bool is_active(std::int64_t) const { return true; }
  void skip(std::int64_t, std::int64_t, std::int64_t) const {}
  bool starts_backwards() const { return false; }

  static std::int64_t column(std::int64_t panel, int block) {
    return (panel * kBlocks + block) * kPanel;
  }
  float* out(std::int64_t row, std::int64_t at) const {
    return args.out + row * args.out_stride + at;
  }

  [[gnu::always_inline]] Vector start(std::int64_t row, std::int64_t panel, int block) const {
    const std::int64_t at = column(panel, block);
    if (args.accumulate) return Vector::load(out(row, at));
    return args.bias != nullptr ? Vector::load(args.bias + at) : Vector(0.0f);
  }
  /// As start, of this row and those that follow.
  StartRows start_rows(std::int64_t row, std::int64_t panel, int block) const {
    const std::int64_t at = column(panel, block);
    if (args.accumulate) return {out(row, at), args.out_stride};
    return {args.bias != nullptr ? args.bias + at : nullptr, 0};
  }
  [[gnu::always_inline]] void finish(Vector sum, std::int64_t row, std::int64_t panel,
                                     int block) const {
    sum.store(out(row, column(panel, block)));
  }
};

/// What the steps of all cells share.
template <class Isa, int kGates>
struct StepJob {
  using T = typename Isa::T;
  using Vector = typename Isa::Vector;
  static constexpr int kBlocks = kGates;
  static constexpr bool kDirect = false;

  const StepArgs<T>& args;

  const T* input(std::int64_t row) const { return args.h_prev + row * args.h_prev_stride; }
  std::int64_t depth() const { return args.depth; }
  const T* packed() const { return args.packed; }
  bool is_active(std::int64_t row) const {
    return args.lengths == nullptr || args.t < args.lengths[row];
  }

  bool starts_backwards() const { return args.t % 2 != 0; }
  /// Element of [rows, panels, count, 16].
  std::int64_t at(std::int64_t row, std::int64_t panel, std::int64_t count) const {
    return (row * panels_of(args.units) + panel) * count * kPanel;
  }
  const float* pre(std::int64_t row, std::int64_t panel, int block) const {
    return args.pre + at(row, panel, kGates) + block * kPanel;
  }

  /// Of a gate, where the recurrent product is there.
  Vector sum(std::int64_t row, std::int64_t panel, int block) const {
    return Vector::load(pre(row, panel, block)) +
           Vector::load(args.recurrent + at(row, panel, kGates) + block * kPanel);
  }
  /// The same where gates have been multiplied one by one.
  Vector sum_of_parts(std::int64_t row, std::int64_t panel, int block) const {
    return Vector::load(pre(row, panel, block)) +
           Vector::load(args.recurrent + block * args.recurrent_stride + at(row, panel, 1));
  }
  /// Units of the state.
  Vector h_prev(std::int64_t row, std::int64_t panel) const {
    return Isa::load(input(row) + panel * kPanel, lanes_of(args.units, panel));
  }

  /// An inactive row keeps its state; with a projection (no y) h is the projection's to keep.
  void skip(std::int64_t row, std::int64_t panel_begin, std::int64_t panel_end) const {
    const std::int64_t end = smaller_of(panel_end * kPanel, args.units);
    T* h_next = args.h_next + row * args.h_next_stride;
    for (std::int64_t unit = panel_begin * kPanel; unit < end; ++unit) {
      h_next[unit] = args.y != nullptr ? input(row)[unit] : T();
      if (args.y != nullptr) args.y[row * args.y_stride + unit] = T();
    }
    if (args.c_next == nullptr) return;
    for (std::int64_t i = at(row, panel_begin, 1); i < at(row, panel_end, 1); ++i) {
      args.c_next[i] = args.c_prev[i];
    }
  }

  void store_h(std::int64_t row, std::int64_t panel, Vector h) const {
    const std::int64_t unit = panel * kPanel;
    const int lanes = lanes_of(args.units, panel);
    Isa::store(args.h_next + row * args.h_next_stride + unit, h, lanes);
    if (args.y != nullptr) Isa::store(args.y + row * args.y_stride + unit, h, lanes);
  }
  template <class... Vectors>
  void save(std::int64_t row, std::int64_t panel, Vectors... values) const {
    if (args.saved == nullptr) return;
    float* saved = args.saved + at(row, panel, sizeof...(values));
    ((values.store(saved), saved += kPanel), ...);
  }
};

/// Of [panels, 3, 16].
template <class Vector>
Peepholes<Vector> peepholes_at(const float* weights, std::int64_t panel) {
  const float* at = weights + panel * 3 * kPanel;
  return {Vector::load(at), Vector::load(at + kPanel), Vector::load(at + 2 * kPanel)};
}

template <class Isa>
struct LstmJob : StepJob<Isa, 4> {
  using Vector = typename Isa::Vector;

  [[gnu::always_inline]] Vector start(std::int64_t row, std::int64_t panel, int block) const {
    return Vector::load(this->pre(row, panel, block));
  }
  StartRows start_rows(std::int64_t row, std::int64_t panel, int block) const {
    return {this->pre(row, panel, block), panels_of(this->args.units) * 4 * kPanel};
  }
  void finish(const float* sums, std::int64_t row, std::int64_t panel) const {
    store(row, panel,
          lstm_forward(Vector::load(sums), Vector::load(sums + kPanel),
                       Vector::load(sums + 2 * kPanel), Vector::load(sums + 3 * kPanel),
                       c_prev(row, panel)));
  }
  void finish_multiplied(std::int64_t row, std::int64_t panel) const {
    const Vector i = this->sum(row, panel, 0), f = this->sum(row, panel, 1);
    const Vector g = this->sum(row, panel, 2), o = this->sum(row, panel, 3);
    const Vector c = c_prev(row, panel);
    if (this->args.peepholes == nullptr) {
      return store(row, panel, lstm_forward(i, f, g, o, c));
    }
    store(row, panel,
          lstm_forward(i, f, g, o, c, peepholes_at<Vector>(this->args.peepholes, panel)));
  }

 private:
  Vector c_prev(std::int64_t row, std::int64_t panel) const {
    return Vector::load(this->args.c_prev + this->at(row, panel, 1));
  }
  void store(std::int64_t row, std::int64_t panel, const LstmOut<Vector>& out) const {
    out.c.store(this->args.c_next + this->at(row, panel, 1));
    this->store_h(row, panel, out.h);
    this->save(row, panel, out.i, out.f, out.g, out.o);
  }
};

template <class Isa>
struct GruJob : StepJob<Isa, 3> {
  using Vector = typename Isa::Vector;

  [[gnu::always_inline]] Vector start(std::int64_t row, std::int64_t panel, int block) const {
    if (block < 2) return Vector::load(this->pre(row, panel, block));
    return Vector::load(this->args.bias_hn + panel * kPanel);
  }
  StartRows start_rows(std::int64_t row, std::int64_t panel, int block) const {
    if (block == 2) return {this->args.bias_hn + panel * kPanel, 0};
    return {this->pre(row, panel, block), panels_of(this->args.units) * 3 * kPanel};
  }
  void finish(const float* sums, std::int64_t row, std::int64_t panel) const {
    finish(Vector::load(sums), Vector::load(sums + kPanel), Vector::load(sums + 2 * kPanel), row,
           panel);
  }
  void finish_multiplied(std::int64_t row, std::int64_t panel) const {
    const float* recurrent = this->args.recurrent + this->at(row, panel, 3);
    finish(this->sum(row, panel, 0), this->sum(row, panel, 1),
           start(row, panel, 2) + Vector::load(recurrent + 2 * kPanel), row, panel);
  }

 private:
  void finish(Vector r, Vector z, Vector n_hidden, std::int64_t row, std::int64_t panel) const {
    const GruOut<Vector> out = gru_forward(r, z, Vector::load(this->pre(row, panel, 2)), n_hidden,
                                           this->h_prev(row, panel));
    this->store_h(row, panel, out.h);
    this->save(row, panel, out.r, out.z, out.n, n_hidden);
  }
};

/// Of a GRU that resets before the product: what the product of n reads.
template <class Isa>
struct ResetJob : StepJob<Isa, 3> {
  void finish_multiplied(std::int64_t row, std::int64_t panel) const {
    this->store_h(row, panel,
                  sigmoid(this->sum_of_parts(row, panel, 0)) * this->h_prev(row, panel));
  }
};

template <class Isa>
struct GruResetBeforeJob : StepJob<Isa, 3> {
  void finish_multiplied(std::int64_t row, std::int64_t panel) const {
    const auto out = gru_reset_before_forward(
        this->sum_of_parts(row, panel, 0), this->sum_of_parts(row, panel, 1),
        this->sum_of_parts(row, panel, 2), this->h_prev(row, panel));
    this->store_h(row, panel, out.h);
    this->save(row, panel, out.r, out.z, out.n);
  }
};

template <class Isa, class Activation>
struct RnnJob : StepJob<Isa, 1> {
  using Vector = typename Isa::Vector;

  [[gnu::always_inline]] Vector start(std::int64_t row, std::int64_t panel, int block) const {
    return Vector::load(this->pre(row, panel, block));
  }
  StartRows start_rows(std::int64_t row, std::int64_t panel, int block) const {
    return {this->pre(row, panel, block), panels_of(this->args.units) * kPanel};
  }
  void finish(const float* sums, std::int64_t row, std::int64_t panel) const {
    finish_sum(Vector::load(sums), row, panel);
  }
  void finish_multiplied(std::int64_t row, std::int64_t panel) const {
    finish_sum(this->sum(row, panel, 0), row, panel);
  }

 private:
  void finish_sum(Vector sum, std::int64_t row, std::int64_t panel) const {
    const Vector h = Activation::forward(sum);
    this->store_h(row, panel, h);
    this->save(row, panel, h);
  }
};

/// The cells of a step whose recurrent product is there.
template <class Isa, class Job>
void run_multiplied(const StepArgs<typename Isa::T>& args) {
  const Job job{{args}};
  for (std::int64_t row = args.row_begin; row < args.row_end; ++row) {
    if (!job.is_active(row)) {
      job.skip(row, args.panel_begin, args.panel_end);
      continue;
    }
    for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      job.finish_multiplied(row, panel);
    }
  }
}

}  // namespace sluice::kernels::recurrent::cpu
