#pragma once

#include <optional>

#include "kernels/recurrent/cpu/cell_steps.h"
#include "kernels/recurrent/cpu/norm_steps.h"
#include "kernels/recurrent/cpu/state_masks.h"

/// The forward steps of one layer and direction.
namespace sluice::kernels::recurrent::cpu {

/// One layer and direction of a forward run, and the part of it that one thread does.
template <typename T>
class DirectionForward {
 public:
  DirectionForward(const Sequence<T>& sequence, const ForwardArgs& args, const Memory& memory,
                   std::int64_t layer, std::int64_t direction, const Walk& walk, const T* x, T* y,
                   const Share& share)
      : sequence_(sequence),
        sizes_(sequence.sizes_of(layer)),
        args_(args),
        walk_(walk),
        share_(share),
        index_(layer * sizes_.directions + direction),
        training_(sequence.descriptor.training),
        input_(sequence.descriptor.input_of(layer)),
        y_stride_(sizes_.directions * sizes_.output),
        x_(x),
        y_(y + direction * sizes_.output),
        lengths_(args.lengths.data_as<const std::int32_t>()),
        masks_(sequence.descriptor, args, layer, direction, walk) {
    bind_memory(memory, static_cast<std::size_t>(direction));
  }

  void run() {
    begin();
    meet();
    const std::int64_t chunk =
        chunk_steps(sequence_.leaf->good_rows, args_.rows, sequence_.descriptor.time);
    for (std::int64_t first = 0; first < walk_.steps; first += chunk) {
      // A product of whole rows within the step wants all panels of the others before it, and each
      // product of 8 bits brings its rows to integers anew.
      if (chunk == 1 && !sizes_.norms && !sizes_.resets_before && !sequence_.descriptor.int8) {
        run_alone(first);
      } else {
        run_chunk(first, std::min(chunk, walk_.steps - first));
      }
    }
    finish();
  }

 private:
  using S = Sum<T>;

  void bind_memory(const Memory& memory, std::size_t d) {
    const auto i = static_cast<std::size_t>(index_);
    const PackedLayer& packed = sequence_.packed.layers[i];
    weight_ih_ = at<const T>(memory.packed, packed.weight_ih);
    weight_hh_ = at<const T>(memory.packed, packed.weight_hh);
    gate_size_ = packed.gate_size;
    weight_hr_ = at<const T>(memory.packed, packed.weight_hr);
    bias_ = at<const S>(memory.packed, packed.bias);
    if (sizes_.hidden_bias) bias_hn_ = at<const S>(memory.packed, packed.bias_hn);
    const ForwardScratch& scratch = sequence_.workspace.forward;
    pre_ = at<S>(memory.workspace, scratch.pre[d]);
    projected_ = at<S>(memory.workspace, scratch.out[d]);
    if (sequence_.descriptor.peepholes) peepholes_ = at<const S>(memory.packed, packed.peepholes);
    if (sizes_.multiplies_apart) recurrent_ = at<S>(memory.workspace, scratch.recurrent[d]);
    multipliers_ = at<S>(memory.workspace, scratch.multipliers[d]);
    if (training_) {
      const ReserveLayer& reserve = sequence_.reserve.layers[i];
      saved_ = at<S>(memory.reserve, reserve.saved);
      h_ = at<T>(memory.reserve, reserve.h);
      c_ = at<S>(memory.reserve, reserve.c);
      h_full_ = at<T>(memory.reserve, reserve.h_full);
      h_dropped_ = at<T>(memory.reserve, reserve.h_dropped);
      h_reset_ = at<T>(memory.reserve, reserve.h_reset);
      c_fresh_ = at<S>(memory.reserve, reserve.c_fresh);
    } else {
      h_ = at<T>(memory.workspace, scratch.h[d]);
      c_ = at<S>(memory.workspace, scratch.c[d]);
      h_full_ = at<T>(memory.workspace, scratch.h_full[d]);
      h_reset_ = at<T>(memory.workspace, scratch.h_reset[d]);
      c_fresh_ = at<S>(memory.workspace, scratch.c_fresh[d]);
      saved_ = at<S>(memory.workspace, scratch.saved[d]);
    }
    if (sizes_.norms) norm_.emplace(sequence_, args_, memory, index_);
  }

  /// The state before step s: all are kept for backward, else two take turns.
  T* h_at(std::int64_t s) const {
    return h_ + (training_ ? walk_.state_row(s) : s % 2) * args_.rows * sizes_.output;
  }
  S* c_at(std::int64_t s) const {
    return c_ + (training_ ? walk_.state_row(s) : 0) * args_.rows * sizes_.state_width;
  }
  T* h_full_at(std::int64_t t) const {
    return h_full_ + (training_ ? t : 0) * args_.rows * sizes_.hidden;
  }
  T* h_dropped_at(std::int64_t s) const {
    return h_dropped_ + walk_.state_row(s) * args_.rows * sizes_.output;
  }
  T* h_reset_at(std::int64_t t) const {
    return h_reset_ + (training_ ? t : 0) * args_.rows * sizes_.hidden;
  }
  /// What recurrent products read of the state.
  const T* h_read_at(std::int64_t s) const {
    return sequence_.descriptor.drops_recurrent() ? h_dropped_at(s) : h_at(s);
  }
  /// c as step s makes it.
  S* c_fresh_at(std::int64_t s) const {
    if (!sizes_.fresh_cells) return c_at(s + 1);
    return c_fresh_ + (training_ ? walk_.time_of(s) : 0) * args_.rows * sizes_.state_width;
  }
  T* y_at(std::int64_t t) const { return y_ + t * args_.rows * y_stride_; }

  void meet() { sequence_.barriers[share_.group].wait(share_.group_size); }

  /// Many rows: each step's input product goes panel by panel with its step, in cache.
  void run_alone(std::int64_t s) {
    const std::int64_t t = walk_.time_of(s);
    for_panels(s, share_.panels, [&](const Range& panels) {
      multiply_input(t, 1, panels);
      step(s, pre_, panels);
    });
    end_step(s);
  }

  /// Few rows: the input products of several steps share one reading of their weights.
  void run_chunk(std::int64_t first, std::int64_t count) {
    const std::int64_t t = std::min(walk_.time_of(first), walk_.time_of(first + count - 1));
    multiply_input(t, count, share_.panels);
    for (std::int64_t i = 0; sizes_.norms && i < count; ++i) {
      norm_->input(t + i, pre_ + i * args_.rows * sizes_.gate_width, bias_, share_.rows);
    }
    for (std::int64_t s = first; s < first + count; ++s) {
      const S* pre = pre_ + (walk_.time_of(s) - t) * args_.rows * sizes_.gate_width;
      step(s, pre, share_.panels);
      end_step(s);
    }
  }

  void end_step(std::int64_t s) {
    if (sizes_.projected) {
      meet();
      project(s);
    }
    if (args_.c_sequence) store_cell_state(s);
    if (s + 1 < walk_.steps) ready_state(s + 1);
    meet();
  }

  /// Makes the state before step s what the step is to start from.
  void ready_state(std::int64_t s) {
    const Range units = units_of(share_.out_panels, sizes_.output);
    masks_.clear_resets(s, h_at(s), sizes_.output, share_.rows, units);
    if (sizes_.lstm) {
      masks_.clear_resets(s, c_at(s), sizes_.state_width, share_.rows,
                          padded_units_of(share_.panels));
    }
    if (!sequence_.descriptor.drops_recurrent()) return;
    for (std::int64_t row = share_.rows.begin; row < share_.rows.end; ++row) {
      const T* h = h_at(s) + row * sizes_.output;
      T* dropped = h_dropped_at(s) + row * sizes_.output;
      const S* multipliers = multipliers_ + row * sizes_.out_width;
      for (std::int64_t unit = units.begin; unit < units.end; ++unit) {
        dropped[unit] = static_cast<T>(static_cast<S>(h[unit]) * multipliers[unit]);
      }
    }
  }

  void begin() {
    const auto* h0 = args_.h0.data_as<const T>();
    const std::int64_t output = sizes_.output;
    if (h0) h0 += sequence_.descriptor.h_offset(index_, args_.rows);
    const Range out_units = units_of(share_.out_panels, output);
    copy_units(h_at(0), output, h0, output, share_.rows, out_units, 0);
    if (sequence_.descriptor.drops_recurrent()) {
      masks_.draw_dropout(multipliers_, sizes_.out_width, share_.rows, out_units);
    }
    if (sizes_.lstm) begin_cells();
    if (walk_.steps > 0) ready_state(0);
  }

  void begin_cells() {
    const std::int64_t hidden = sizes_.hidden;
    const auto* c0 = args_.c0.data_as<const S>();
    if (c0) c0 += index_ * args_.rows * hidden;
    copy_units(c_at(0), sizes_.state_width, c0, hidden, share_.rows,
               units_of(share_.panels, hidden), share_.panels.end * kPanel);
  }

  /// pre = bias + x * input weights for `count` steps from time t on; own rows and panels only, so
  /// that no thread waits for another's.
  void multiply_input(std::int64_t t, std::int64_t count, const Range& panels) {
    ProductArgs<T> product{};
    product.a_stride = product.depth = input_;
    product.blocks = sizes_.gates;
    product.packed = weight_ih_;
    product.bias = sizes_.norms ? nullptr : bias_;
    product.out_stride = sizes_.gate_width;
    if (share_.rows.size() == args_.rows) {
      product.a = x_ + t * args_.rows * input_;
      product.rows = count * args_.rows;
      product.out = pre_;
      product.panel_begin = panels.begin;
      product.panel_end = panels.end;
      sequence_.leaf->product(product);
      return;
    }
    product.rows = share_.rows.size();
    // A panel's weights stay in cache for all steps of the chunk; but a product of 8 bits brings
    // its rows to integers first.
    const std::int64_t together = sequence_.descriptor.int8 ? panels.size() : 1;
    for (std::int64_t panel = panels.begin; panel < panels.end; panel += together) {
      product.panel_begin = panel;
      product.panel_end = panel + together;
      for (std::int64_t i = 0; i < count; ++i) {
        product.a = x_ + ((t + i) * args_.rows + share_.rows.begin) * input_;
        product.out = pre_ + (i * args_.rows + share_.rows.begin) * sizes_.gate_width;
        sequence_.leaf->product(product);
      }
    }
  }

  /// out [rows, panels, blocks, 16] = h * packed, own rows.
  void multiply_state(const T* h, const T* packed, std::int64_t blocks, S* out,
                      const Range& panels) {
    const Range& rows = share_.rows;
    const std::int64_t width = blocks * sizes_.state_width;
    ProductArgs<T> product{};
    product.a = h + rows.begin * sizes_.output;
    product.a_stride = product.depth = sizes_.output;
    product.rows = rows.size();
    product.blocks = blocks;
    product.packed = packed;
    product.out = out + rows.begin * width;
    product.out_stride = width;
    product.panel_begin = panels.begin;
    product.panel_end = panels.end;
    sequence_.leaf->product(product);
  }

  /// The recurrent products of a GRU that resets before that of n, which reads what all of the
  /// group's threads have reset.
  void multiply_gate_by_gate(std::int64_t s, const S* pre) {
    const auto multiply = [&](const T* h, std::int64_t gate) {
      multiply_state(h, weight_hh_ + gate * gate_size_, 1, recurrent_ + gate * gate_stride(),
                     share_.panels);
    };
    for (std::int64_t gate = 0; gate < 2; ++gate) multiply(h_read_at(s), gate);
    const std::int64_t t = walk_.time_of(s);
    StepArgs<T> reset = step_args(s, pre, share_.panels);
    reset.h_prev = h_read_at(s);
    reset.h_next = h_reset_at(t);
    reset.y = nullptr;
    sequence_.leaf->reset.forward(reset);
    meet();
    multiply(h_reset_at(t), 2);
  }

  std::int64_t gate_stride() const { return args_.rows * sizes_.state_width; }

  void multiply_recurrent(std::int64_t s, const Range& panels) {
    multiply_state(h_read_at(s), weight_hh_, sizes_.gates, recurrent_, panels);
    if (norm_) norm_->recurrent(walk_.time_of(s), recurrent_, share_.rows);
  }

  StepArgs<T> step_args(std::int64_t s, const S* pre, const Range& panels) const {
    const std::int64_t t = walk_.time_of(s);
    StepArgs<T> step{};
    step.row_begin = share_.rows.begin;
    step.row_end = share_.rows.end;
    step.panel_begin = panels.begin;
    step.panel_end = panels.end;
    step.units = sizes_.hidden;
    step.depth = step.h_prev_stride = sizes_.output;
    step.h_prev = h_at(s);
    step.packed = weight_hh_;
    step.pre = pre;
    step.recurrent = recurrent_;
    if (sizes_.resets_before) step.recurrent_stride = gate_stride();
    step.peepholes = peepholes_;
    step.bias_hn = bias_hn_;
    step.lengths = lengths_;
    step.t = t;
    if (sizes_.lstm) {
      step.c_prev = c_at(s);
      step.c_next = c_fresh_at(s);
    }
    step.h_next = sizes_.projected ? h_full_at(t) : h_at(s + 1);
    step.h_next_stride = sizes_.hidden;
    step.y = sizes_.projected ? nullptr : y_at(t);
    step.y_stride = y_stride_;
    if (training_) {
      step.saved = saved_ + t * args_.rows * sizes_.saved_width;
    } else if (sizes_.norms) {
      step.saved = saved_;
    }
    return step;
  }

  void step(std::int64_t s, const S* pre, const Range& panels) {
    if (sizes_.resets_before) {
      multiply_gate_by_gate(s, pre);
    } else if (sizes_.multiplies_apart) {
      multiply_recurrent(s, panels);
    }
    const std::int64_t t = walk_.time_of(s);
    const StepArgs<T> step = step_args(s, pre, panels);
    steps_of(*sequence_.leaf, sequence_.descriptor.cell).forward(step);
    if (norm_) {
      norm_->output(t, step.c_next, step.saved, recurrent_, h_at(s + 1), y_at(t), y_stride_,
                    share_.rows);
    }
    if (sizes_.fresh_cells) carry_cells(s, padded_units_of(panels));
    if (masks_.keeps_h() && !sizes_.projected) zone_out_h(s, units_of(panels, sizes_.hidden));
  }

  /// The cell state after step s, from what the step made.
  void carry_cells(std::int64_t s, const Range& units) {
    if (masks_.keeps_c()) {
      masks_.zone_out(CellMask::kZoneoutC, s, c_at(s), c_fresh_at(s), c_at(s + 1),
                      sizes_.state_width, share_.rows, units);
    } else {
      copy_units(c_at(s + 1), sizes_.state_width, c_fresh_at(s), sizes_.state_width, share_.rows,
                 units, 0);
    }
  }

  void zone_out_h(std::int64_t s, const Range& units) {
    const std::int64_t t = walk_.time_of(s);
    masks_.zone_out(CellMask::kZoneoutH, s, h_at(s), h_at(s + 1), h_at(s + 1), sizes_.output,
                    share_.rows, units);
    for (std::int64_t row = share_.rows.begin; row < share_.rows.end; ++row) {
      if (!is_active(lengths_, row, t)) continue;
      const T* h = h_at(s + 1) + row * sizes_.output;
      std::copy(h + units.begin, h + units.end, y_at(t) + row * y_stride_ + units.begin);
    }
  }

  void project(std::int64_t s) {
    const std::int64_t t = walk_.time_of(s), output = sizes_.output;
    const Range& rows = share_.rows;
    ProductArgs<T> product{};
    product.a = h_full_at(t) + rows.begin * sizes_.hidden;
    product.a_stride = product.depth = sizes_.hidden;
    product.rows = rows.size();
    product.blocks = 1;
    product.packed = weight_hr_;
    product.out = projected_ + rows.begin * sizes_.out_width;
    product.out_stride = sizes_.out_width;
    product.panel_begin = share_.out_panels.begin;
    product.panel_end = share_.out_panels.end;
    sequence_.leaf->product(product);
    const Range units = units_of(share_.out_panels, output);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const bool active = is_active(lengths_, row, t);
      for (std::int64_t unit = units.begin; unit < units.end; ++unit) {
        const auto value = static_cast<T>(projected_[row * sizes_.out_width + unit]);
        h_at(s + 1)[row * output + unit] = active ? value : h_at(s)[row * output + unit];
        y_at(t)[row * y_stride_ + unit] = active ? value : T(0);
      }
    }
    if (masks_.keeps_h()) zone_out_h(s, units);
  }

  void store_cell_state(std::int64_t s) {
    const std::int64_t t = walk_.time_of(s), hidden = sizes_.hidden;
    auto* target =
        args_.c_sequence.template data_as<S>() + (index_ * args_.time + t) * args_.rows * hidden;
    const Range units = units_of(share_.panels, hidden);
    for (std::int64_t row = share_.rows.begin; row < share_.rows.end; ++row) {
      const S* c = is_active(lengths_, row, t) ? c_at(s + 1) : nullptr;
      copy_units(target, hidden, c, sizes_.state_width, {row, row + 1}, units, 0);
    }
  }

  void finish() {
    const std::int64_t output = sizes_.output, hidden = sizes_.hidden;
    if (auto* hn = args_.hn.template data_as<T>()) {
      copy_units(hn + sequence_.descriptor.h_offset(index_, args_.rows), output, h_at(walk_.steps),
                 output, share_.rows, units_of(share_.out_panels, output), 0);
    }
    if (auto* cn = args_.cn.template data_as<S>()) {
      copy_units(cn + index_ * args_.rows * hidden, hidden, c_at(walk_.steps), sizes_.state_width,
                 share_.rows, units_of(share_.panels, hidden), 0);
    }
  }

  const Sequence<T>& sequence_;
  const Sizes& sizes_;
  const ForwardArgs& args_;
  const Walk walk_;
  const Share& share_;
  const std::int64_t index_;
  const bool training_;
  const std::int64_t input_, y_stride_;
  const T* x_;
  T* y_;
  const std::int32_t* lengths_;
  const StateMasks<T> masks_;
  std::optional<NormForward<T>> norm_;
  const T *weight_ih_ = nullptr, *weight_hh_ = nullptr, *weight_hr_ = nullptr;
  const S *bias_ = nullptr, *bias_hn_ = nullptr, *peepholes_ = nullptr;
  S *pre_ = nullptr, *recurrent_ = nullptr, *projected_ = nullptr, *saved_ = nullptr, *c_ = nullptr,
    *c_fresh_ = nullptr, *multipliers_ = nullptr;
  T *h_ = nullptr, *h_full_ = nullptr, *h_dropped_ = nullptr, *h_reset_ = nullptr;
  std::int64_t gate_size_ = 0;
};

}  // namespace sluice::kernels::recurrent::cpu
