#pragma once

#include <cmath>

#include "kernels/recurrent/cpu/cells.h"
#include "kernels/recurrent/cpu/layer_norm.h"
#include "kernels/recurrent/cpu/sequence_run.h"

/// What layer norm adds to the steps of one layer and direction, for rows that a thread has to
/// itself: with it h is no function of its own unit's sums alone.
namespace sluice::kernels::recurrent::cpu {

/// Packed parameters: of the products [gate_width], of c [state_width].
template <typename S>
struct NormWeights {
  template <typename T>
  NormWeights(const Sequence<T>& sequence, const Memory& memory, std::size_t index)
      : gain_ih(at<const S>(memory.packed, sequence.packed.layers[index].gain_ih)),
        gain_hh(at<const S>(memory.packed, sequence.packed.layers[index].gain_hh)),
        gain_c(at<const S>(memory.packed, sequence.packed.layers[index].gain_c)),
        shift_c(at<const S>(memory.packed, sequence.packed.layers[index].shift_c)) {}

  /// What tanh takes of a normalised c.
  S shifted(std::int64_t unit, S normed) const { return gain_c[unit] * normed + shift_c[unit]; }

  const S *gain_ih, *gain_hh, *gain_c, *shift_c;
};

/// What the forward steps keep, [time, rows, ..]; see ReserveLayer. Null in inference.
template <typename S>
struct NormKept {
  template <typename T>
  NormKept(const Sequence<T>& sequence, const Memory& memory, std::size_t index) {
    if (!sequence.descriptor.training) return;
    const ReserveLayer& reserve = sequence.reserve.layers[index];
    ih = at<S>(memory.reserve, reserve.norm_ih);
    hh = at<S>(memory.reserve, reserve.norm_hh);
    c = at<S>(memory.reserve, reserve.norm_c);
    inverses = at<S>(memory.reserve, reserve.inverses);
  }

  S *ih = nullptr, *hh = nullptr, *c = nullptr, *inverses = nullptr;
};

/// The gate o of a unit among the saved ones of a row.
template <typename S>
S saved_o(const S* saved, std::int64_t unit) {
  return saved[(unit / kPanel * 4 + 3) * kPanel + unit % kPanel];
}

template <typename T>
class NormForward {
 public:
  using S = Sum<T>;

  NormForward(const Sequence<T>& sequence, const ForwardArgs& args, const Memory& memory,
              std::int64_t index)
      : sizes_(sequence.sizes),
        args_(args),
        weights_(sequence, memory, static_cast<std::size_t>(index)),
        kept_(sequence, memory, static_cast<std::size_t>(index)) {}

  /// Products [rows, gate_width] of time t become what the gates take of them.
  void input(std::int64_t t, S* products, const S* bias, const Range& rows) const {
    product(t, products, weights_.gain_ih, bias, kept_.ih, 0, rows);
  }
  void recurrent(std::int64_t t, S* products, const Range& rows) const {
    product(t, products, weights_.gain_hh, nullptr, kept_.hh, 1, rows);
  }

  /// Makes h [rows, H] of time t, and y, from the c [rows, state_width] that the cells made and the
  /// gates that they saved; `scratch` has gate_width numbers a row.
  void output(std::int64_t t, const S* c, const S* saved, S* scratch, T* h, T* y,
              std::int64_t y_stride, const Range& rows) const {
    const auto* lengths = args_.lengths.data_as<const std::int32_t>();
    const std::int64_t width = sizes_.state_width;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t place = t * args_.rows + row;
      S* normed = kept_.c ? kept_.c + place * width : scratch + row * sizes_.gate_width;
      if (!is_active(lengths, row, t)) {
        std::fill_n(normed, width, S(0));
        continue;
      }
      const S inverse = normalize(sizes_.hidden, 1, c + row * width, normed);
      if (kept_.inverses) kept_.inverses[place * 3 + 2] = inverse;
      T* to = h + row * sizes_.hidden;
      for (std::int64_t unit = 0; unit < sizes_.hidden; ++unit) {
        const S o = saved_o(saved + row * sizes_.saved_width, unit);
        to[unit] = static_cast<T>(o * std::tanh(weights_.shifted(unit, normed[unit])));
      }
      std::copy(to, to + sizes_.hidden, y + row * y_stride);
    }
  }

 private:
  void product(std::int64_t t, S* products, const S* gain, const S* bias, S* kept,
               std::int64_t which, const Range& rows) const {
    const std::int64_t width = sizes_.gate_width;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t place = t * args_.rows + row;
      S* sums = products + row * width;
      const S inverse = normalize(sizes_.hidden, 4, sums, sums);
      if (kept) {
        std::copy(sums, sums + width, kept + place * width);
        kept_.inverses[place * 3 + which] = inverse;
      }
      for (std::int64_t i = 0; i < width; ++i) {
        sums[i] = gain[i] * sums[i] + (bias ? bias[i] : S(0));
      }
    }
  }

  const Sizes& sizes_;
  const ForwardArgs& args_;
  const NormWeights<S> weights_;
  const NormKept<S> kept_;
};

template <typename T>
class NormBackward {
 public:
  using S = Sum<T>;

  NormBackward(const Sequence<T>& sequence, const ForwardArgs& args, const Memory& memory,
               std::int64_t index)
      : sizes_(sequence.sizes),
        args_(args),
        weights_(sequence, memory, static_cast<std::size_t>(index)),
        kept_(sequence, memory, static_cast<std::size_t>(index)),
        hard_sigmoid_(sequence.descriptor.hard_sigmoid) {
    const auto d = static_cast<std::size_t>(index % sizes_.directions);
    const BackwardScratch& scratch = sequence.workspace.backward;
    saved_ =
        at<const S>(memory.reserve, sequence.reserve.layers[static_cast<std::size_t>(index)].saved);
    d_sums_ = at<T>(memory.workspace, scratch.d_sums[d]);
    d_norm_c_ = at<S>(memory.workspace, scratch.d_norm_c[d]);
    row_ = at<S>(memory.workspace, scratch.norm_row[d]);
    dh_left_ = row_ + args.rows * sizes_.gate_width;
    d_o_ = dh_left_ + args.rows * sizes_.state_width;
  }

  /// Gradients of the gates' sums, where the cells are to put theirs.
  T* d_sums() const { return d_sums_; }
  /// The dh that `part` leaves to the cells: none of active rows.
  const S* dh_left() const { return dh_left_; }

  /// Before the cells' step: what dh [rows, state_width] gives to c, which is added to dc, and to
  /// o.
  void part(std::int64_t t, const S* dh, S* dc, const Range& rows) const {
    const std::int64_t width = sizes_.state_width;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t place = t * args_.rows + row;
      S *d_normed = d_norm_c_ + place * width, *left = dh_left_ + row * width;
      std::fill_n(d_normed, width, S(0));
      if (!active(t, row)) {
        std::copy_n(dh + row * width, width, left);
        continue;
      }
      std::fill_n(left, width, S(0));
      const S *saved = saved_ + place * sizes_.saved_width, *normed = kept_.c + place * width;
      S* d_c = row_ + row * sizes_.gate_width;
      for (std::int64_t unit = 0; unit < sizes_.hidden; ++unit) {
        const S o = saved_o(saved, unit), d = dh[row * width + unit];
        const S squashed = std::tanh(weights_.shifted(unit, normed[unit]));
        d_o_[row * width + unit] = through_gate(d * squashed, o);
        d_normed[unit] = d * o * (S(1) - squashed * squashed);
        d_c[unit] = weights_.gain_c[unit] * d_normed[unit];
      }
      normalize_backward(sizes_.hidden, 1, normed, kept_.inverses[place * 3 + 2], d_c);
      for (std::int64_t unit = 0; unit < width; ++unit) dc[row * width + unit] += d_c[unit];
    }
  }

  /// After it: the gradients of both products, [time, rows, gate_width], from those of the sums.
  void finish(std::int64_t t, T* d_input, T* d_hidden, const Range& rows) const {
    const std::int64_t width = sizes_.gate_width;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t place = t * args_.rows + row;
      if (!active(t, row)) {
        std::fill_n(d_input + place * width, width, T(0));
        std::fill_n(d_hidden + place * width, width, T(0));
        continue;
      }
      T* d_sums = d_sums_ + place * width;
      const S* d_o = d_o_ + row * sizes_.state_width;
      for (std::int64_t unit = 0; unit < sizes_.hidden; ++unit) {
        d_sums[(unit / kPanel * 4 + 3) * kPanel + unit % kPanel] = static_cast<T>(d_o[unit]);
      }
      product(place, 0, weights_.gain_ih, kept_.ih, row, d_input);
      product(place, 1, weights_.gain_hh, kept_.hh, row, d_hidden);
    }
  }

 private:
  bool active(std::int64_t t, std::int64_t row) const {
    return is_active(args_.lengths.data_as<const std::int32_t>(), row, t);
  }

  /// The gradient of a gate's sum from that of its value.
  S through_gate(S d, S value) const {
    return hard_sigmoid_ ? HardSigmoid::gradient(d, value) : Logistic::gradient(d, value);
  }

  void product(std::int64_t place, std::int64_t which, const S* gain, const S* normed,
               std::int64_t row, T* to) const {
    const std::int64_t width = sizes_.gate_width, first = place * width;
    S* d = row_ + row * width;
    for (std::int64_t i = 0; i < width; ++i) d[i] = gain[i] * static_cast<S>(d_sums_[first + i]);
    normalize_backward(sizes_.hidden, 4, normed + first, kept_.inverses[place * 3 + which], d);
    for (std::int64_t i = 0; i < width; ++i) to[first + i] = static_cast<T>(d[i]);
  }

  const Sizes& sizes_;
  const ForwardArgs& args_;
  const NormWeights<S> weights_;
  const NormKept<S> kept_;
  const bool hard_sigmoid_;
  const S* saved_ = nullptr;
  T* d_sums_ = nullptr;
  S *d_norm_c_ = nullptr, *row_ = nullptr, *dh_left_ = nullptr, *d_o_ = nullptr;
};

}  // namespace sluice::kernels::recurrent::cpu
