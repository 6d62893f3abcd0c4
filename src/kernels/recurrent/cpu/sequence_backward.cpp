#include <omp.h>

#include <optional>
#include <utility>

#include "kernels/recurrent/cpu/cell_steps.h"
#include "kernels/recurrent/cpu/norm_steps.h"
#include "kernels/recurrent/cpu/sequence_gradients.h"
#include "kernels/recurrent/cpu/state_masks.h"
#include "runtime/span.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

/// The backward steps of one layer and direction, and the part of them that one thread does. Gate
/// gradients of all steps stay in the workspace, in order of time.
template <typename T>
class DirectionBackward {
 public:
  DirectionBackward(const Sequence<T>& sequence, const BackwardArgs& args, const Memory& memory,
                    std::int64_t layer, std::int64_t direction, const Walk& walk, const T* dy,
                    const Share& share)
      : sequence_(sequence),
        sizes_(sequence.sizes_of(layer)),
        args_(args),
        walk_(walk),
        share_(share),
        index_(layer * sizes_.directions + direction),
        rows_(args.forward.rows),
        dy_stride_(sizes_.directions * sizes_.output),
        dy_(dy ? dy + direction * sizes_.output : nullptr),
        lengths_(args.forward.lengths.data_as<const std::int32_t>()),
        masks_(sequence.descriptor, args.forward, layer, direction, walk) {
    bind_memory(memory, static_cast<std::size_t>(direction));
  }

  void run() {
    begin();
    for (std::int64_t s = walk_.steps - 1; s >= 0; --s) {
      const std::int64_t t = walk_.time_of(s);
      add_dy(t);
      if (sizes_.projected) {
        split_dh(s);
        meet();
        multiply(dh_out_ + t * rows_ * sizes_.output, sizes_.output, weight_hr_t_, share_.panels,
                 false, dh_full_, sizes_.state_width);
      }
      step(s);
      meet();
      if (sizes_.resets_before) {
        multiply_candidate(s);
        meet();
      }
      multiply_gates(t);
      std::swap(dh_, dh_next_);
      masks_.clear_resets(s, dh_, sizes_.out_width, share_.rows, out_units());
      if (sizes_.lstm) masks_.clear_resets(s, dc_, sizes_.state_width, share_.rows, cells());
    }
    finish();
  }

 private:
  using S = Sum<T>;

  void bind_memory(const Memory& memory, std::size_t d) {
    const auto i = static_cast<std::size_t>(index_);
    const PackedLayer& packed = sequence_.packed.layers[i];
    weight_hh_t_ = at<const T>(memory.packed, packed.weight_hh_t);
    gate_size_t_ = packed.gate_size_t;
    weight_hr_t_ = at<const T>(memory.packed, packed.weight_hr_t);
    const ReserveLayer& reserve = sequence_.reserve.layers[i];
    saved_ = at<const S>(memory.reserve, reserve.saved);
    h_ = at<const T>(memory.reserve, reserve.h);
    h_dropped_ = at<const T>(memory.reserve, reserve.h_dropped);
    c_ = at<const S>(memory.reserve, reserve.c);
    c_fresh_ = at<const S>(memory.reserve, reserve.c_fresh);
    if (sequence_.descriptor.peepholes) peepholes_ = at<const S>(memory.packed, packed.peepholes);
    const BackwardScratch& scratch = sequence_.workspace.backward;
    d_gates_ = at<T>(memory.workspace, scratch.d_gates[d]);
    d_gates_hidden_ = at<T>(memory.workspace, scratch.d_gates_hidden[d]);
    dh_ = at<S>(memory.workspace, scratch.dh[d]);
    dh_next_ = dh_ + rows_ * sizes_.out_width;
    dc_ = at<S>(memory.workspace, scratch.dc[d]);
    dh_out_ = at<T>(memory.workspace, scratch.dh_out[d]);
    dh_full_ = at<S>(memory.workspace, scratch.dh_full[d]);
    dh_through_ = at<S>(memory.workspace, scratch.dh_through[d]);
    dh_around_ = dh_through_ + rows_ * sizes_.out_width;
    dc_around_ = at<S>(memory.workspace, scratch.dc_around[d]);
    product_ = at<S>(memory.workspace, scratch.product[d]);
    multipliers_ = product_ + rows_ * sizes_.out_width;
    if (sizes_.norms) norm_.emplace(sequence_, args_.forward, memory, index_);
  }

  void meet() { sequence_.barriers[share_.group].wait(share_.group_size); }

  Range out_units() const { return units_of(share_.out_panels, sizes_.output); }
  Range cells() const { return padded_units_of(share_.panels); }

  void begin() {
    const auto* dhn = args_.dhn.template data_as<const T>();
    const std::int64_t output = sizes_.output, hidden = sizes_.hidden;
    if (dhn) dhn += sequence_.descriptor.h_offset(index_, rows_);
    copy_units(dh_, sizes_.out_width, dhn, output, share_.rows, out_units(),
               share_.out_panels.end * kPanel);
    if (sequence_.descriptor.drops_recurrent()) {
      masks_.draw_dropout(multipliers_, sizes_.out_width, share_.rows,
                          padded_units_of(share_.out_panels));
    }
    if (!sizes_.lstm) return;
    const auto* dcn = args_.dcn.template data_as<const S>();
    if (dcn) dcn += index_ * rows_ * hidden;
    copy_units(dc_, sizes_.state_width, dcn, hidden, share_.rows, units_of(share_.panels, hidden),
               share_.panels.end * kPanel);
  }

  void add_dy(std::int64_t t) {
    if (dy_ == nullptr) return;
    const Range units = out_units();
    for (std::int64_t row = share_.rows.begin; row < share_.rows.end; ++row) {
      if (!is_active(lengths_, row, t)) continue;
      const T* from = dy_ + (t * rows_ + row) * dy_stride_;
      S* to = dh_ + row * sizes_.out_width;
      for (std::int64_t unit = units.begin; unit < units.end; ++unit) {
        to[unit] += static_cast<S>(from[unit]);
      }
    }
  }

  /// With a projection: the gradient of an active row's output goes through this step, rounded to
  /// storage as a factor of products; an inactive row's goes on to the earlier step.
  void split_dh(std::int64_t s) {
    const std::int64_t t = walk_.time_of(s);
    const Range units = out_units();
    for (std::int64_t row = share_.rows.begin; row < share_.rows.end; ++row) {
      const bool active = is_active(lengths_, row, t);
      T* through = dh_out_ + (t * rows_ + row) * sizes_.output;
      const S* from = dh_ + row * sizes_.out_width;
      S* past = dh_next_ + row * sizes_.out_width;
      for (std::int64_t unit = units.begin; unit < units.end; ++unit) {
        through[unit] = active ? static_cast<T>(from[unit]) : T(0);
        past[unit] = active ? S(0) : from[unit];
      }
      std::fill(past + units.end, past + share_.out_panels.end * kPanel, S(0));
    }
    if (!masks_.keeps_h()) return;
    masks_.part_gradient(CellMask::kZoneoutH, s, dh_, sizes_.out_width,
                         dh_out_ + t * rows_ * sizes_.output, sizes_.output, dh_next_,
                         sizes_.out_width, share_.rows, units);
  }

  /// The step between the parts of gradients that zoneout leads around it.
  void step(std::int64_t s) {
    const bool parts_h = masks_.keeps_h() && !sizes_.projected;
    if (parts_h) {
      masks_.part_gradient(CellMask::kZoneoutH, s, dh_, sizes_.out_width, dh_through_,
                           sizes_.out_width, dh_around_, sizes_.out_width, share_.rows, cells());
    }
    if (masks_.keeps_c()) {
      masks_.part_gradient(CellMask::kZoneoutC, s, dc_, sizes_.state_width, dc_, sizes_.state_width,
                           dc_around_, sizes_.state_width, share_.rows, cells());
    }
    const S* dh = parts_h ? dh_through_ : dh_;
    if (norm_) {
      const std::int64_t t = walk_.time_of(s);
      norm_->part(t, dh, dc_, share_.rows);
      step_cells(s, norm_->dh_left());
      norm_->finish(t, d_gates_, d_gates_hidden_, share_.rows);
    } else {
      step_cells(s, dh);
    }
    if (parts_h) add(dh_next_, dh_around_);
    if (masks_.keeps_c()) add(dc_, dc_around_);
  }

  /// to += from, [rows, state_width].
  void add(S* to, const S* from) const {
    for (std::int64_t row = share_.rows.begin; row < share_.rows.end; ++row) {
      const std::int64_t first = row * sizes_.state_width;
      for (std::int64_t unit = cells().begin; unit < cells().end; ++unit) {
        to[first + unit] += from[first + unit];
      }
    }
  }

  StepBackwardArgs<T> step_args(std::int64_t s) const {
    const std::int64_t t = walk_.time_of(s);
    StepBackwardArgs<T> step{};
    step.row_begin = share_.rows.begin;
    step.row_end = share_.rows.end;
    step.panel_begin = share_.panels.begin;
    step.panel_end = share_.panels.end;
    step.units = sizes_.hidden;
    step.lengths = lengths_;
    step.t = t;
    step.saved = saved_ + t * rows_ * sizes_.saved_width;
    step.h_prev = h_ + walk_.state_row(s) * rows_ * sizes_.output;
    step.h_prev_stride = sizes_.output;
    step.d_gates_input = d_gates_ + t * rows_ * sizes_.gate_width;
    if (sizes_.resets_before) {
      step.d_gates_hidden = d_gates_hidden_ + t * rows_ * sizes_.state_width;
      step.d_hidden_stride = gate_stride();
    } else if (sizes_.hidden_bias) {
      step.d_gates_hidden = d_gates_hidden_ + t * rows_ * sizes_.gate_width;
    }
    return step;
  }

  /// Elements between gates of d_gates_hidden, with resets before the product.
  std::int64_t gate_stride() const { return walk_.steps * rows_ * sizes_.state_width; }

  void step_cells(std::int64_t s, const S* dh) {
    const std::int64_t t = walk_.time_of(s);
    const std::int64_t before = walk_.state_row(s), after = walk_.state_row(s + 1);
    StepBackwardArgs<T> step = step_args(s);
    step.dh = sizes_.projected ? dh_full_ : dh;
    step.dh_direct = sizes_.projected ? nullptr : dh_next_;
    if (norm_) step.d_gates_input = norm_->d_sums() + t * rows_ * sizes_.gate_width;
    if (sizes_.lstm) {
      step.c_prev = c_ + before * rows_ * sizes_.state_width;
      step.c = sizes_.fresh_cells ? c_fresh_ + t * rows_ * sizes_.state_width
                                  : c_ + after * rows_ * sizes_.state_width;
      step.peepholes = peepholes_;
      step.dc = dc_;
    }
    steps_of(*sequence_.leaf, sequence_.descriptor.cell).backward(step);
  }

  /// Of a GRU that resets before the product of n: what comes back from there, and what r gets of
  /// it. The rest, of what products read, is left in product_.
  void multiply_candidate(std::int64_t s) {
    const std::int64_t t = walk_.time_of(s);
    multiply_gate(t, 2, false);
    StepBackwardArgs<T> reset = step_args(s);
    if (sequence_.descriptor.drops_recurrent()) {
      reset.h_prev = h_dropped_ + walk_.state_row(s) * rows_ * sizes_.output;
    }
    reset.dh = product_;
    reset.dh_direct = product_;
    sequence_.leaf->reset.backward(reset);
  }

  /// product_ (+)= what one gate's recurrent product gives back.
  void multiply_gate(std::int64_t t, std::int64_t gate, bool accumulate) {
    multiply(d_gates_hidden_ + gate * gate_stride() + t * rows_ * sizes_.state_width,
             sizes_.state_width, weight_hh_t_ + gate * gate_size_t_, share_.out_panels, accumulate,
             product_, sizes_.out_width);
  }

  /// Adds what reaches the previous h by the recurrent product.
  void multiply_gates(std::int64_t t) {
    const bool drops = sequence_.descriptor.drops_recurrent();
    if (sizes_.resets_before) {
      for (std::int64_t gate = 0; gate < 2; ++gate) multiply_gate(t, gate, true);
    } else {
      const T* d_gates =
          (sizes_.gates_apart ? d_gates_hidden_ : d_gates_) + t * rows_ * sizes_.gate_width;
      multiply(d_gates, sizes_.gate_width, weight_hh_t_, share_.out_panels, !drops,
               drops ? product_ : dh_next_, sizes_.out_width);
    }
    if (drops || sizes_.resets_before) add_product(drops);
  }

  /// Adds product_ to the gradient of the previous h, through the mask of recurrent dropout if that
  /// is `masked`.
  void add_product(bool masked) {
    const Range units = padded_units_of(share_.out_panels);
    for (std::int64_t row = share_.rows.begin; row < share_.rows.end; ++row) {
      const std::int64_t first = row * sizes_.out_width;
      for (std::int64_t unit = units.begin; unit < units.end; ++unit) {
        const S value = product_[first + unit];
        dh_next_[first + unit] += masked ? multipliers_[first + unit] * value : value;
      }
    }
  }

  /// out[own rows, panels] (+)= a * packed, where a [rows, depth] is one time step's.
  void multiply(const T* a, std::int64_t depth, const T* packed, const Range& panels,
                bool accumulate, S* out, std::int64_t out_stride) {
    sequence_.leaf->product({a + share_.rows.begin * depth, depth, share_.rows.size(), depth, 1,
                             packed, nullptr, accumulate, out + share_.rows.begin * out_stride,
                             out_stride, panels.begin, panels.end});
  }

  void finish() {
    const std::int64_t output = sizes_.output, hidden = sizes_.hidden;
    if (auto* dh0 = args_.dh0.template data_as<T>()) {
      copy_units(dh0 + sequence_.descriptor.h_offset(index_, rows_), output, dh_, sizes_.out_width,
                 share_.rows, out_units(), 0);
    }
    if (auto* dc0 = args_.dc0.template data_as<S>()) {
      copy_units(dc0 + index_ * rows_ * hidden, hidden, dc_, sizes_.state_width, share_.rows,
                 units_of(share_.panels, hidden), 0);
    }
  }

  const Sequence<T>& sequence_;
  const Sizes& sizes_;
  const BackwardArgs& args_;
  const Walk walk_;
  const Share& share_;
  const std::int64_t index_, rows_, dy_stride_;
  const T* dy_;
  const std::int32_t* lengths_;
  const StateMasks<T> masks_;
  std::optional<NormBackward<T>> norm_;
  std::int64_t gate_size_t_ = 0;
  const T *weight_hh_t_ = nullptr, *weight_hr_t_ = nullptr, *h_ = nullptr, *h_dropped_ = nullptr;
  const S *saved_ = nullptr, *c_ = nullptr, *c_fresh_ = nullptr, *peepholes_ = nullptr;
  T *d_gates_ = nullptr, *d_gates_hidden_ = nullptr, *dh_out_ = nullptr;
  S *dh_ = nullptr, *dh_next_ = nullptr, *dc_ = nullptr, *dh_full_ = nullptr,
    *dh_through_ = nullptr, *dh_around_ = nullptr, *dc_around_ = nullptr, *product_ = nullptr,
    *multipliers_ = nullptr;
};

template <typename T>
const T* input_of(const Sequence<T>& sequence, const BackwardArgs& args, const Memory& memory,
                  std::int64_t layer) {
  if (layer == 0) return args.forward.x.data_as<const T>();
  return at<const T>(memory.reserve, sequence.reserve.outputs[static_cast<std::size_t>(layer - 1)]);
}

}  // namespace

template <typename T>
void run_backward(const Sequence<T>& sequence, const BackwardArgs& args, const Memory& memory,
                  runtime::Profiler* profiler) {
  const std::int64_t steps = steps_of(args.forward), rows = args.forward.rows;
  const std::int64_t layers = sequence.descriptor.layers;
  auto* inner_dy = at<T>(memory.workspace, sequence.workspace.backward.dy);
  auto* dx = args.dx.data_as<T>();
#pragma omp parallel num_threads(sequence.threads)
  {
    for (std::int64_t layer = layers - 1; layer >= 0; --layer) {
      const Sizes& sizes = sequence.sizes_of(layer);
      const Share share =
          share_of(sizes.directions, rows, sizes.panels, sizes.out_panels, sequence.own_rows,
                   loop_threads(sequence, rows, omp_get_num_threads()), omp_get_thread_num());
      const runtime::LayerSpan span(omp_get_thread_num() == 0 ? profiler : nullptr, layer);
      const T* dy = layer + 1 == layers ? args.dy.template data_as<const T>() : inner_dy;
      for (std::int64_t d = share.directions.begin; d < share.directions.end; ++d) {
        if (share.idle()) break;
        DirectionBackward<T>(sequence, args, memory, layer, d, {steps, d == 1}, dy, share).run();
      }
#pragma omp barrier
      const LayerGradients<T> gradients{sequence, args,  memory,
                                        layer,    steps, input_of(sequence, args, memory, layer)};
      if (layer > 0 || dx) gradients.input_gradient(layer > 0 ? inner_dy : dx);
      gradients.weight_gradients();
    }
  }
  const std::int64_t step_size = rows * sequence.descriptor.input;
  if (dx) std::fill(dx + steps * step_size, dx + args.forward.time * step_size, T(0));
}

template void run_backward(const Sequence<double>&, const BackwardArgs&, const Memory&,
                           runtime::Profiler*);
template void run_backward(const Sequence<float>&, const BackwardArgs&, const Memory&,
                           runtime::Profiler*);
template void run_backward(const Sequence<base::BFloat16>&, const BackwardArgs&, const Memory&,
                           runtime::Profiler*);

}  // namespace sluice::kernels::recurrent::cpu
