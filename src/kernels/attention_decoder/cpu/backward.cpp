#include "kernels/attention_decoder/cpu/backward.h"

#include "kernels/recurrent/cpu/cell_steps.h"

namespace sluice::kernels::attention_decoder::cpu {
/// [L, B, H] or null into [L, B, padded(H)].
template <typename T>
void BackwardRun<T>::load_panel_rows(const Share& share, const T* source, T* target) const {
  const std::int64_t width = padded(d.hidden);
  for (std::int64_t l = 0; l < d.layers; ++l) {
    for (std::int64_t row = share.own_rows().begin; row < share.own_rows().end; ++row) {
      T* to = target + (l * rows() + row) * width;
      std::fill_n(to, width, T(0));
      if (source != nullptr) std::copy_n(source + (l * rows() + row) * d.hidden, d.hidden, to);
    }
  }
}

template <typename T>
void BackwardRun<T>::store_panel_rows(const Share& share, const T* source, T* target) const {
  const std::int64_t width = padded(d.hidden);
  for (std::int64_t l = 0; l < d.layers; ++l) {
    for (std::int64_t row = share.own_rows().begin; row < share.own_rows().end; ++row) {
      const std::int64_t at = l * rows() + row;
      std::copy_n(source + at * width, d.hidden, target + at * d.hidden);
    }
  }
}

template <typename T>
void BackwardRun<T>::start(const Share& share) const {
  // Before step t stands in slot t + 1 what the later steps left.
  load_panel_rows(share, args.dhn.template data_as<const T>(), dh(0, trace.extents.target_time));
  if (d.cell == CellType::kLstm) {
    load_panel_rows(share, args.dcn.template data_as<const T>(), scratch.dc);
  }
  const std::int64_t keys = trace.extents.source_time * key_stride();
  const std::int64_t feed = padded(d.output);
  for (std::int64_t row = share.own_rows().begin; row < share.own_rows().end; ++row) {
    std::fill_n(scratch.d_feed + row * feed, feed, T(0));
    if (d.attention == AttentionType::kMultiplicative) continue;
    std::fill_n(scratch.d_keys + row * keys, keys, T(0));
    std::fill_n(scratch.d_vector + row * key_stride(), key_stride(), T(0));
  }
  share.barrier();
}

template <typename T>
void BackwardRun<T>::step(const Share& share, std::int64_t t) const {
  output_gradient(share, t);
  share.barrier();
  multiply(*leaf.cells,
           {scratch.d_output + t * rows() * d.output, d.output, d.output, d.memory, 1,
            weights.output_context_back, nullptr, false,
            scratch.d_context + t * rows() * padded(d.memory)},
           share.rows(), share.panels(d.memory));
  share.barrier();
  attention_gradient(share, t);
  share.barrier();
  query_gradient(share, t);
  for (std::int64_t l = d.layers; l-- > 0;) {
    cell_gradient(share, l, t);
    share.barrier();
    carry_hidden(share, l, t);
    if (l > 0) pass_below(share, l, t);
  }
  multiply(*leaf.cells,
           {d_gates(0, t), gate_width(), gate_width(), d.output, 1, weights.feed_back, nullptr,
            false, scratch.d_feed},
           share.rows(), share.panels(d.output));
}

/// Gradient of the sums before the output's tanh, in the panels in which d_feed was computed.
template <typename T>
void BackwardRun<T>::output_gradient(const Share& share, std::int64_t t) const {
  const T* a = args.forward.a.template data_as<const T>();
  const T* da = args.da.template data_as<const T>();
  const std::int64_t begin = share.panels(d.output).begin * kPanel;
  const std::int64_t end = std::min(share.panels(d.output).end * kPanel, d.output);
  for (std::int64_t row = share.rows().begin; row < share.rows().end; ++row) {
    const std::int64_t at = (t * rows() + row) * d.output;
    const T* fed = scratch.d_feed + row * padded(d.output);
    T* out = scratch.d_output + at;
    if (!is_active(row, t)) {
      if (begin < end) std::fill(out + begin, out + end, T(0));
      continue;
    }
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = (da[at + i] + fed[i]) * (T(1) - a[at + i] * a[at + i]);
    }
  }
}

template <typename T>
void BackwardRun<T>::attention_gradient(const Share& share, std::int64_t t) const {
  const std::int64_t time = trace.extents.source_time, value_stride = padded(d.memory);
  for (std::int64_t row = share.own_rows().begin; row < share.own_rows().end; ++row) {
    const std::int64_t attended = is_active(row, t) ? length(row) : 0;
    const std::int64_t at = t * rows() + row;
    T* d_scores = scratch.d_scores + at * time;
    leaf.attention->attend_backward(
        {attended, key_stride(), value_stride, trace.keys + row * time * key_stride(),
         trace.values + row * time * value_stride, trace.query(t) + row * key_stride(),
         weights.score_vector, trace.alpha(t) + row * time, scratch.d_context + at * value_stride,
         d_scores, scratch.d_query + at * key_stride(), scratch.d_keys + row * time * key_stride(),
         scratch.d_vector + row * key_stride()});
    std::fill(d_scores + attended, d_scores + time, T(0));
  }
}

/// Adds all that flows into q to the top layer's dh, which holds what comes from the next step.
template <typename T>
void BackwardRun<T>::query_gradient(const Share& share, std::int64_t t) const {
  T* top = dh(d.layers - 1, t + 1);
  multiply(*leaf.cells,
           {scratch.d_output + t * rows() * d.output, d.output, d.output, d.hidden, 1,
            weights.output_query_back, nullptr, true, top},
           share.rows(), share.panels(d.hidden));
  const T* d_query = scratch.d_query + t * rows() * key_stride();
  if (d.attention == AttentionType::kAdditive) {
    multiply(*leaf.cells,
             {d_query, key_stride(), d.key, d.hidden, 1, weights.query_back, nullptr, true, top},
             share.rows(), share.panels(d.hidden));
    return;
  }
  const Range panels = share.panels(d.hidden);
  for (std::int64_t row = share.rows().begin; row < share.rows().end; ++row) {
    for (std::int64_t i = panels.begin * kPanel; i < panels.end * kPanel; ++i) {
      top[row * key_stride() + i] += d_query[row * key_stride() + i];
    }
  }
}

template <typename T>
recurrent::cpu::StepBackwardArgs<T> BackwardRun<T>::step_args(const Share& share, std::int64_t l,
                                                              std::int64_t t) const {
  recurrent::cpu::StepBackwardArgs<T> step_args{};
  step_args.row_begin = share.rows().begin;
  step_args.row_end = share.rows().end;
  step_args.panel_begin = share.panels(d.hidden).begin;
  step_args.panel_end = share.panels(d.hidden).end;
  step_args.units = d.hidden;
  step_args.lengths = args.forward.target_lengths.template data_as<const std::int32_t>();
  step_args.t = t;
  step_args.saved = trace.saved(l, t);
  step_args.h_prev = trace.h(l, t);
  step_args.h_prev_stride = d.hidden;
  step_args.d_gates_input = d_gates(l, t);
  if (d.cell == CellType::kGru || resets_before(d)) {
    step_args.d_gates_hidden = d_gates_hidden(l, t);
  }
  if (resets_before(d)) step_args.d_hidden_stride = rows() * padded(d.hidden);
  return step_args;
}

template <typename T>
void BackwardRun<T>::cell_gradient(const Share& share, std::int64_t l, std::int64_t t) const {
  recurrent::cpu::StepBackwardArgs<T> step = step_args(share, l, t);
  step.dh = dh(l, t + 1);
  step.dh_direct = dh(l, t);
  if (d.cell == CellType::kLstm) {
    step.c_prev = trace.c(l, t);
    step.c = trace.c(l, t + 1);
    step.dc = scratch.dc + l * rows() * padded(d.hidden);
  }
  recurrent::cpu::steps_of(*leaf.cells, d.cell).backward(step);
}

/// With resets before the product: through that of n to r * h, which gives r its gradient, and
/// through those of r and z, on top of the direct part.
template <typename T>
void BackwardRun<T>::carry_gate_by_gate(const Share& share, std::int64_t l, std::int64_t t) const {
  const PackedLayer<T>& layer = weights.layers[static_cast<std::size_t>(l)];
  const std::int64_t width = padded(d.hidden);
  const auto multiply_gate = [&](std::int64_t gate, bool accumulate, T* out) {
    multiply(*leaf.cells,
             {d_gates_hidden(l, t) + gate * rows() * width, width, width, d.hidden, 1,
              layer.recurrent_back + gate * layer.gate_size_back, nullptr, accumulate, out},
             share.rows(), share.panels(d.hidden));
  };
  multiply_gate(2, false, scratch.d_reset);
  recurrent::cpu::StepBackwardArgs<T> reset = step_args(share, l, t);
  reset.dh = reset.dh_direct = scratch.d_reset;
  leaf.cells->reset.backward(reset);
  share.barrier();
  multiply_gate(0, true, dh(l, t));
  multiply_gate(1, true, dh(l, t));
  const Range panels = share.panels(d.hidden);
  for (std::int64_t row = share.rows().begin; row < share.rows().end; ++row) {
    for (std::int64_t i = panels.begin * kPanel; i < panels.end * kPanel; ++i) {
      dh(l, t)[row * width + i] += scratch.d_reset[row * width + i];
    }
  }
}

/// The previous h's gradient through the recurrent product, on top of the direct part.
template <typename T>
void BackwardRun<T>::carry_hidden(const Share& share, std::int64_t l, std::int64_t t) const {
  if (resets_before(d)) return carry_gate_by_gate(share, l, t);
  multiply(*leaf.cells,
           {d_gates_hidden(l, t), gate_width(), gate_width(), d.hidden, 1,
            weights.layers[static_cast<std::size_t>(l)].recurrent_back, nullptr, true, dh(l, t)},
           share.rows(), share.panels(d.hidden));
}

/// Adds what flows into layer l's input to the dh of the layer below.
template <typename T>
void BackwardRun<T>::pass_below(const Share& share, std::int64_t l, std::int64_t t) const {
  const std::uint8_t* mask = trace.mask(l - 1, t);
  T* below = dh(l - 1, t + 1);
  multiply(*leaf.cells,
           {d_gates(l, t), gate_width(), gate_width(), d.hidden, 1,
            weights.layers[static_cast<std::size_t>(l)].input_back, nullptr, mask == nullptr,
            mask == nullptr ? below : scratch.d_below},
           share.rows(), share.panels(d.hidden));
  if (mask == nullptr) return;
  const T scale = static_cast<T>(1 / (1 - d.dropout));
  const std::int64_t begin = share.panels(d.hidden).begin * kPanel;
  const std::int64_t end = std::min(share.panels(d.hidden).end * kPanel, d.hidden);
  for (std::int64_t row = share.rows().begin; row < share.rows().end; ++row) {
    const std::int64_t at = row * padded(d.hidden);
    for (std::int64_t i = begin; i < end; ++i) {
      const T kept = mask[row * d.hidden + i] != 0 ? scale : T(0);
      below[at + i] += kept * scratch.d_below[at + i];
    }
  }
}

template <typename T>
void BackwardRun<T>::finish(const Share& share) const {
  share.barrier();
  if (args.dh0) store_panel_rows(share, dh(0, 0), args.dh0.template data_as<T>());
  if (args.dc0) store_panel_rows(share, scratch.dc, args.dc0.template data_as<T>());
  if (!args.da0) return;
  for (std::int64_t row = share.own_rows().begin; row < share.own_rows().end; ++row) {
    std::copy_n(scratch.d_feed + row * padded(d.output), d.output,
                args.da0.template data_as<T>() + row * d.output);
  }
}

template <typename T>
void run_backward(const Decoder<T>& decoder, const BackwardArgs& args, const Memory& memory) {
  const Descriptor& d = decoder.d;
  const Leaves<T>& leaf = decoder.leaf;
  Carver packed(memory.packed), workspace(memory.workspace), reserve(memory.reserve);
  const Extents extents{args.forward.target_time, args.forward.source_time, args.forward.rows};
  const PackedWeights<T> weights = carve_packed(d, *leaf.cells, packed);
  BackwardRun<T> run{d, leaf, weights, args, {}, {}};
  run.trace = carve_trace<T>(d, extents, true, true, reserve);
  run.scratch = carve_backward<T>(d, extents, workspace);
#pragma omp parallel num_threads(decoder.threads_for_steps(extents))
  {
    const Share share = decoder.share(extents);
    run.start(share);
    for (std::int64_t t = extents.target_time; t-- > 0;) run.step(share, t);
    run.finish(share);
  }
  finish_inputs(run);
  finish_weights(run);
}

template struct BackwardRun<double>;
template struct BackwardRun<float>;
template void run_backward(const Decoder<double>&, const BackwardArgs&, const Memory&);
template void run_backward(const Decoder<float>&, const BackwardArgs&, const Memory&);

}  // namespace sluice::kernels::attention_decoder::cpu
