#include <cstring>

#include "kernels/attention_decoder/cpu/forward.h"
#include "kernels/recurrent/cpu/cell_steps.h"

namespace sluice::kernels::attention_decoder::cpu {

template <typename T>
void ForwardRun<T>::step(const Share& share, std::int64_t t) const {
  const std::int64_t gates = d.gates() * padded(d.hidden);
  for (std::int64_t l = 0; l < d.layers; ++l) {
    const PackedLayer<T>& layer = weights.layers[static_cast<std::size_t>(l)];
    T* pre = l == 0 ? scratch.pre + t * rows() * gates : scratch.pre_upper;
    const T* fed = t == 0 ? a0 : a + (t - 1) * rows() * d.output;
    if (l > 0) {
      multiply(*leaf.cells,
               {trace.y(l - 1, t), d.hidden, d.hidden, d.hidden, d.gates(), layer.input, layer.bias,
                false, pre},
               share.rows(), share.panels(d.hidden));
    } else if (fed != nullptr) {
      multiply(*leaf.cells,
               {fed, d.output, d.output, d.hidden, d.gates(), weights.feed, nullptr, true, pre},
               share.rows(), share.panels(d.hidden));
    }
    run_cell(share, l, t, pre);
    share.barrier();
  }
  make_query(share, t);
  attend(share, t);
  share.barrier();
  make_output(share, t);
  share.barrier();
}

template <typename T>
void ForwardRun<T>::run_cell(const Share& share, std::int64_t l, std::int64_t t,
                             const T* pre) const {
  const PackedLayer<T>& layer = weights.layers[static_cast<std::size_t>(l)];
  const bool top = l + 1 == d.layers;
  if (d.int8 && !resets_before(d)) {
    multiply(*leaf.cells,
             {trace.h(l, t), d.hidden, d.hidden, d.hidden, d.gates(), layer.recurrent, nullptr,
              false, scratch.recurrent},
             share.rows(), share.panels(d.hidden));
  }
  recurrent::cpu::StepArgs<T> args{};
  args.row_begin = share.rows().begin;
  args.row_end = share.rows().end;
  args.panel_begin = share.panels(d.hidden).begin;
  args.panel_end = share.panels(d.hidden).end;
  args.units = d.hidden;
  args.depth = d.hidden;
  args.h_prev = trace.h(l, t);
  args.h_prev_stride = d.hidden;
  args.packed = layer.recurrent;
  args.pre = pre;
  args.recurrent = scratch.recurrent;
  args.bias_hn = layer.bias_hn;
  args.lengths = target_lengths;
  args.t = t;
  args.c_prev = trace.c(l, t);
  args.c_next = trace.c(l, t + 1);
  args.h_next = trace.h(l, t + 1);
  args.h_next_stride = d.hidden;
  args.y = top ? trace.combined(t) + d.memory : trace.y(l, t);
  args.y_stride = top ? trace.combined_width() : d.hidden;
  args.saved = trace.saved(l, t);
  if (resets_before(d)) {
    args.recurrent_stride = rows() * padded(d.hidden);
    multiply_gate_by_gate(share, l, t, args);
  }
  recurrent::cpu::steps_of(*leaf.cells, d.cell).forward(args);
  if (!top) drop(share, l, t);
}

template <typename T>
void ForwardRun<T>::multiply_gate_by_gate(const Share& share, std::int64_t l, std::int64_t t,
                                          const recurrent::cpu::StepArgs<T>& args) const {
  const PackedLayer<T>& layer = weights.layers[static_cast<std::size_t>(l)];
  const auto multiply_gate = [&](const T* h, std::int64_t gate) {
    multiply(*leaf.cells,
             {h, d.hidden, d.hidden, d.hidden, 1, layer.recurrent + gate * layer.gate_size, nullptr,
              false, scratch.recurrent + gate * args.recurrent_stride},
             share.rows(), share.panels(d.hidden));
  };
  multiply_gate(trace.h(l, t), 0);
  multiply_gate(trace.h(l, t), 1);
  recurrent::cpu::StepArgs<T> reset = args;
  reset.h_next = trace.reset(l, t);
  reset.y = nullptr;
  leaf.cells->reset.forward(reset);
  share.barrier();
  multiply_gate(trace.reset(l, t), 2);
}

template <typename T>
void ForwardRun<T>::drop(const Share& share, std::int64_t l, std::int64_t t) const {
  std::uint8_t* mask = trace.mask(l, t);
  if (mask == nullptr) return;
  const runtime::DropoutKey key = dropout.shifted(static_cast<std::uint32_t>(l)).key();
  const std::uint32_t threshold = runtime::dropout_threshold(d.dropout);
  const T scale = static_cast<T>(1 / (1 - d.dropout));
  const std::int64_t begin = share.panels(d.hidden).begin * kPanel;
  const std::int64_t end = std::min(share.panels(d.hidden).end * kPanel, d.hidden);
  for (std::int64_t row = share.rows().begin; row < share.rows().end; ++row) {
    const auto id = static_cast<std::uint32_t>(row_ids != nullptr ? row_ids[row] : row);
    T* y = trace.y(l, t) + row * d.hidden;
    std::uint8_t* kept = mask + row * d.hidden;
    for (std::int64_t first = begin; first < end; first += 4) {
      const auto words =
          key.words(id, static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(first / 4));
      for (std::int64_t unit = first; unit < std::min(first + 4, end); ++unit) {
        kept[unit] = words[static_cast<std::size_t>(unit - first)] >= threshold ? 1 : 0;
        y[unit] = kept[unit] != 0 ? y[unit] * scale : T(0);
      }
    }
  }
}

template <typename T>
void ForwardRun<T>::make_query(const Share& share, std::int64_t t) const {
  const T* q = trace.combined(t) + d.memory;
  if (d.attention == AttentionType::kAdditive) {
    multiply(*leaf.cells,
             {q, trace.combined_width(), d.hidden, d.key, 1, weights.query, nullptr, false,
              trace.query(t)},
             share.rows(), share.panels(d.key));
    share.barrier();
    return;
  }
  // Attention reads whole vectors: q goes into a padded row.
  const std::int64_t width = padded(d.hidden);
  for (std::int64_t row = share.own_rows().begin; row < share.own_rows().end; ++row) {
    T* target = trace.query(t) + row * width;
    std::copy_n(q + row * trace.combined_width(), d.hidden, target);
    std::fill(target + d.hidden, target + width, T(0));
  }
}

template <typename T>
void ForwardRun<T>::attend(const Share& share, std::int64_t t) const {
  const std::int64_t time = trace.extents.source_time;
  const std::int64_t key_stride = padded(d.key_width()), value_stride = padded(d.memory);
  for (std::int64_t row = share.own_rows().begin; row < share.own_rows().end; ++row) {
    const std::int64_t input = input_of_row != nullptr ? input_of_row[row] : row;
    const std::int64_t length = source_lengths != nullptr ? source_lengths[input] : time;
    T* alpha = trace.alpha(t) + row * time;
    leaf.attention->attend({time, is_active(row, t) ? length : 0, key_stride, value_stride,
                            d.memory, keys + input * time * key_stride,
                            values + input * time * value_stride, trace.query(t) + row * key_stride,
                            weights.score_vector, alpha,
                            trace.combined(t) + row * trace.combined_width()});
    if (alpha_out != nullptr) std::copy_n(alpha, time, alpha_out + (t * rows() + row) * time);
  }
}

template <typename T>
void ForwardRun<T>::make_output(const Share& share, std::int64_t t) const {
  const std::int64_t stride = trace.combined_width();
  multiply(*leaf.cells,
           {trace.combined(t), stride, d.memory, d.output, 1, weights.output_context,
            weights.output_bias, false, scratch.sums},
           share.rows(), share.panels(d.output));
  multiply(*leaf.cells,
           {trace.combined(t) + d.memory, stride, d.hidden, d.output, 1, weights.output_query,
            nullptr, true, scratch.sums},
           share.rows(), share.panels(d.output));
  const std::int64_t begin = share.panels(d.output).begin * kPanel;
  const std::int64_t end = std::min(share.panels(d.output).end * kPanel, d.output);
  if (begin >= end) return;
  for (std::int64_t row = share.rows().begin; row < share.rows().end; ++row) {
    T* out = a + (t * rows() + row) * d.output + begin;
    if (is_active(row, t)) {
      leaf.attention->tanh(end - begin, scratch.sums + row * padded(d.output) + begin, out);
    } else {
      std::fill_n(out, end - begin, T(0));
    }
  }
}

template <typename T>
void ForwardRun<T>::load_state(const Share& share, const T* h, const T* c) const {
  const std::int64_t width = padded(d.hidden);
  for (std::int64_t l = 0; l < d.layers; ++l) {
    for (std::int64_t row = share.own_rows().begin; row < share.own_rows().end; ++row) {
      const std::int64_t at = (l * rows() + row) * d.hidden;
      T* h_row = trace.h(l, 0) + row * d.hidden;
      if (h != nullptr) {
        std::copy_n(h + at, d.hidden, h_row);
      } else {
        std::fill_n(h_row, d.hidden, T(0));
      }
      if (d.cell != CellType::kLstm) continue;
      T* c_row = trace.c(l, 0) + row * width;
      std::fill_n(c_row, width, T(0));
      if (c != nullptr) std::copy_n(c + at, d.hidden, c_row);
    }
  }
}

template <typename T>
void ForwardRun<T>::store_state(const Share& share, T* h, T* c) const {
  const std::int64_t time = trace.extents.target_time;
  for (std::int64_t l = 0; l < d.layers; ++l) {
    for (std::int64_t row = share.own_rows().begin; row < share.own_rows().end; ++row) {
      const std::int64_t at = (l * rows() + row) * d.hidden;
      if (h != nullptr) std::copy_n(trace.h(l, time) + row * d.hidden, d.hidden, h + at);
      if (c != nullptr) std::copy_n(trace.c(l, time) + row * padded(d.hidden), d.hidden, c + at);
    }
  }
}

template struct ForwardRun<double>;
template struct ForwardRun<float>;

}  // namespace sluice::kernels::attention_decoder::cpu
