#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/attention_decoder/attention_decoder.h"
#include "kernels/attention_decoder/carver.h"
#include "kernels/recurrent/cpu/leaf.h"

/// Where everything lies in the memory of a plan. Each function lays a set of buffers out from a
/// Carver.
namespace sluice::kernels::attention_decoder::cpu {

using recurrent::cpu::kPanel;
using recurrent::cpu::Leaf;
using recurrent::cpu::panels_of;

constexpr std::int64_t padded(std::int64_t units) { return panels_of(units) * kPanel; }

/// Whether recurrent products are made gate by gate, that of n after the others.
inline bool resets_before(const Descriptor& d) { return d.cell == CellType::kGruResetBefore; }

/// Packed matrices of one layer; see Leaf. "_back" ones, for training only, multiply gradients of
/// gates in panel order and yield gradients of what the forward one multiplies.
template <typename T>
struct PackedLayer {
  T* input = nullptr;      ///< of x; in layer 0 of emb only
  T* recurrent = nullptr;  ///< of h; with resets before the product each gate's for itself
  T* bias = nullptr;       ///< [panels, G, 16]: both biases, but not the GRU's b_hn
  T* bias_hn = nullptr;    ///< GRU: [panels, 16]
  T* input_back = nullptr;
  T* recurrent_back = nullptr;                     ///< likewise
  std::int64_t gate_size = 0, gate_size_back = 0;  ///< elements from gate to gate of these two
};

template <typename T>
struct PackedWeights {
  std::vector<PackedLayer<T>> layers;
  T* feed = nullptr;  ///< layer 0's weights of a_{t-1}
  T* feed_back = nullptr;
  T* query = nullptr;  ///< additive
  T* query_back = nullptr;
  T* key = nullptr;  ///< W_m, or W_a: either has rows of M for each element of a key
  T* key_back = nullptr;
  T* score_vector = nullptr;    ///< additive: [padded(K)]
  T* output_context = nullptr;  ///< W_c's columns for the context
  T* output_query = nullptr;    ///< W_c's columns for q
  T* output_context_back = nullptr;
  T* output_query_back = nullptr;
  T* output_bias = nullptr;  ///< [padded(A)]
};

template <typename T>
PackedWeights<T> carve_packed(const Descriptor& d, const Leaf<T>& leaf, Carver& carver) {
  PackedWeights<T> w;
  const auto matrix = [&](std::int64_t units, std::int64_t depth, std::int64_t blocks) {
    return carver.take<T>(leaf.packed_size(units, depth, blocks));
  };
  const auto back = [&](std::int64_t units, std::int64_t depth) {
    return d.training ? matrix(units, depth, 1) : nullptr;
  };
  const std::int64_t gate_depth = d.gates() * padded(d.hidden);
  w.layers.resize(static_cast<std::size_t>(d.layers));
  for (std::int64_t l = 0; l < d.layers; ++l) {
    PackedLayer<T>& layer = w.layers[static_cast<std::size_t>(l)];
    const std::int64_t input = l == 0 ? d.embedding : d.hidden;
    layer.input = matrix(d.hidden, input, d.gates());
    if (resets_before(d)) {
      layer.gate_size = leaf.packed_size(d.hidden, d.hidden, 1);
      layer.recurrent = carver.take<T>(d.gates() * layer.gate_size);
    } else {
      layer.recurrent = matrix(d.hidden, d.hidden, d.gates());
    }
    layer.bias = carver.take<T>(gate_depth);
    if (d.cell == CellType::kGru) layer.bias_hn = carver.take<T>(padded(d.hidden));
    layer.input_back = back(input, gate_depth);
    if (resets_before(d) && d.training) {
      layer.gate_size_back = leaf.packed_size(d.hidden, padded(d.hidden), 1);
      layer.recurrent_back = carver.take<T>(d.gates() * layer.gate_size_back);
    } else {
      layer.recurrent_back = back(d.hidden, gate_depth);
    }
  }
  w.feed = matrix(d.hidden, d.output, d.gates());
  w.feed_back = back(d.output, gate_depth);
  if (d.attention == AttentionType::kAdditive) {
    w.query = matrix(d.key, d.hidden, 1);
    w.query_back = back(d.hidden, d.key);
    w.score_vector = carver.take<T>(padded(d.key));
  }
  w.key = matrix(d.key_width(), d.memory, 1);
  w.key_back = back(d.memory, d.key_width());
  w.output_context = matrix(d.output, d.memory, 1);
  w.output_query = matrix(d.output, d.hidden, 1);
  w.output_context_back = back(d.memory, d.output);
  w.output_query_back = back(d.hidden, d.output);
  w.output_bias = carver.take<T>(padded(d.output));
  return w;
}

/// What the steps of a forward run leave behind. When training everything is kept for every step;
/// otherwise a few slots are used in turn: step t uses slot t modulo their number.
template <typename T>
struct Trace {
  const Descriptor* d = nullptr;
  Extents extents;
  std::int64_t state_slots = 0;  ///< of h: time + 1, or 2
  std::int64_t cell_slots = 0;   ///< of c: time + 1, or 1
  std::int64_t step_slots = 0;   ///< of the rest: time, or 1

  T* h_base = nullptr;                ///< [L, state_slots, B, H]; slot t: before step t
  T* c_base = nullptr;                ///< LSTM [L, cell_slots, B, padded(H)]
  T* saved_base = nullptr;            ///< training [L, T, B, panels, saved, 16]
  T* reset_base = nullptr;            ///< resets before: [L, step_slots, B, H], r * h
  T* y_base = nullptr;                ///< [L-1, step_slots, B, H]: input of the layer above
  std::uint8_t* mask_base = nullptr;  ///< with dropout [L-1, T, B, H]: 1 where kept
  T* combined_base = nullptr;         ///< [step_slots, B, M+H]: [context ; q]
  T* query_base = nullptr;            ///< [step_slots, B, key_stride]
  T* alpha_base = nullptr;            ///< [step_slots, B, S]
  T* keys = nullptr;                  ///< [B, S, key_stride]
  T* values = nullptr;                ///< [B, S, value_stride]: memory, padded

  std::int64_t rows() const { return extents.rows; }
  T* h(std::int64_t l, std::int64_t t) const {
    return h_base + (l * state_slots + t % state_slots) * rows() * d->hidden;
  }
  T* c(std::int64_t l, std::int64_t t) const {
    if (c_base == nullptr) return nullptr;
    return c_base + (l * cell_slots + t % cell_slots) * rows() * padded(d->hidden);
  }
  T* saved(std::int64_t l, std::int64_t t) const {
    if (saved_base == nullptr) return nullptr;
    return saved_base + (l * extents.target_time + t) * rows() * padded(d->hidden) *
                            recurrent::saved_of(d->cell);
  }
  T* reset(std::int64_t l, std::int64_t t) const {
    return reset_base + (l * step_slots + t % step_slots) * rows() * d->hidden;
  }
  T* y(std::int64_t l, std::int64_t t) const {
    return y_base + (l * step_slots + t % step_slots) * rows() * d->hidden;
  }
  std::uint8_t* mask(std::int64_t l, std::int64_t t) const {
    if (mask_base == nullptr) return nullptr;
    return mask_base + (l * extents.target_time + t) * rows() * d->hidden;
  }
  std::int64_t combined_width() const { return d->memory + d->hidden; }
  T* combined(std::int64_t t) const {
    return combined_base + t % step_slots * rows() * combined_width();
  }
  T* query(std::int64_t t) const {
    return query_base + t % step_slots * rows() * padded(d->key_width());
  }
  T* alpha(std::int64_t t) const {
    return alpha_base + t % step_slots * rows() * extents.source_time;
  }
};

/// `extents` are those of the run, or the capacities to learn the size. `with_memory`: keys and
/// values as well; a single step is given them.
template <typename T>
Trace<T> carve_trace(const Descriptor& d, const Extents& extents, bool training, bool with_memory,
                     Carver& carver) {
  Trace<T> trace;
  trace.d = &d;
  trace.extents = extents;
  const std::int64_t time = extents.target_time, rows = extents.rows;
  trace.state_slots = training ? time + 1 : 2;
  trace.cell_slots = training ? time + 1 : 1;
  trace.step_slots = training ? std::max<std::int64_t>(time, 1) : 1;
  trace.h_base = carver.take<T>(d.layers * trace.state_slots * rows * d.hidden);
  if (d.cell == CellType::kLstm) {
    trace.c_base = carver.take<T>(d.layers * trace.cell_slots * rows * padded(d.hidden));
  }
  if (training) {
    trace.saved_base =
        carver.take<T>(d.layers * time * rows * padded(d.hidden) * recurrent::saved_of(d.cell));
  }
  if (resets_before(d)) {
    trace.reset_base = carver.take<T>(d.layers * trace.step_slots * rows * d.hidden);
  }
  trace.y_base = carver.take<T>((d.layers - 1) * trace.step_slots * rows * d.hidden);
  if (training && d.dropout > 0 && d.layers > 1) {
    trace.mask_base = carver.take<std::uint8_t>((d.layers - 1) * time * rows * d.hidden);
  }
  trace.combined_base = carver.take<T>(trace.step_slots * rows * trace.combined_width());
  trace.query_base = carver.take<T>(trace.step_slots * rows * padded(d.key_width()));
  trace.alpha_base = carver.take<T>(trace.step_slots * rows * extents.source_time);
  if (with_memory) {
    trace.keys = carver.take<T>(rows * extents.source_time * padded(d.key_width()));
    trace.values = carver.take<T>(rows * extents.source_time * padded(d.memory));
  }
  return trace;
}

/// Scratch of forward and step.
template <typename T>
struct ForwardScratch {
  T* pre = nullptr;        ///< [T, B, panels, G, 16]: layer 0's input products
  T* pre_upper = nullptr;  ///< [B, panels, G, 16]: of the layer at work
  /// Products made apart (in 8 bits, or gate by gate): [B, panels, G, 16] or with resets before the
  /// product [G, B, panels, 16], of the layer at work.
  T* recurrent = nullptr;
  T* sums = nullptr;  ///< [B, padded(A)]: before the tanh of the output
};

template <typename T>
ForwardScratch<T> carve_forward(const Descriptor& d, const Extents& extents, Carver& carver) {
  ForwardScratch<T> scratch;
  const std::int64_t gates = d.gates() * padded(d.hidden);
  scratch.pre = carver.take<T>(extents.target_time * extents.rows * gates);
  if (d.layers > 1) scratch.pre_upper = carver.take<T>(extents.rows * gates);
  if (d.int8 || resets_before(d)) scratch.recurrent = carver.take<T>(extents.rows * gates);
  scratch.sums = carver.take<T>(extents.rows * padded(d.output));
  return scratch;
}

/// Scratch of backward: what the time loop hands on from step to step, and for every step what the
/// products over all time need afterwards.
template <typename T>
struct BackwardScratch {
  T* dh[2] = {};           ///< [L, B, padded(H)], in turn
  T* dc = nullptr;         ///< LSTM [L, B, padded(H)]
  T* d_feed = nullptr;     ///< [B, padded(A)]: of a_{t-1} through the cell
  T* d_below = nullptr;    ///< with dropout [B, padded(H)]
  T* d_reset = nullptr;    ///< resets before: [B, padded(H)], of r * h
  T* d_query = nullptr;    ///< [T, B, key_stride]
  T* d_output = nullptr;   ///< [T, B, A]: before the tanh
  T* d_context = nullptr;  ///< [T, B, value_stride]
  T* d_scores = nullptr;   ///< [T, B, S]
  T* d_gates = nullptr;    ///< [L, T, B, panels, G, 16]: of the input products
  /// Of the recurrent products: the LSTM's are the same array, and with resets before the product
  /// each step's are [G, B, panels, 16].
  T* d_gates_hidden = nullptr;
  T* d_keys = nullptr;     ///< [B, S, key_stride]
  T* d_values = nullptr;   ///< [B, S, value_stride]
  T* d_vector = nullptr;   ///< additive [B, key_stride]: of the score vector, by row
  T* canonical = nullptr;  ///< [T*B, max(G*H, padded(E))]
  T* emb = nullptr;        ///< [T, B, E]: a copy with zeros past the rows' ends
};

template <typename T>
BackwardScratch<T> carve_backward(const Descriptor& d, const Extents& extents, Carver& carver) {
  BackwardScratch<T> s;
  const std::int64_t rows = extents.rows, steps = extents.target_time * rows;
  const std::int64_t state = d.layers * rows * padded(d.hidden);
  const std::int64_t entries = rows * extents.source_time;
  s.dh[0] = carver.take<T>(state);
  s.dh[1] = carver.take<T>(state);
  if (d.cell == CellType::kLstm) s.dc = carver.take<T>(state);
  s.d_feed = carver.take<T>(rows * padded(d.output));
  if (d.layers > 1 && d.dropout > 0) s.d_below = carver.take<T>(rows * padded(d.hidden));
  if (resets_before(d)) s.d_reset = carver.take<T>(rows * padded(d.hidden));
  s.d_query = carver.take<T>(steps * padded(d.key_width()));
  s.d_output = carver.take<T>(steps * d.output);
  s.d_context = carver.take<T>(steps * padded(d.memory));
  s.d_scores = carver.take<T>(steps * extents.source_time);
  const std::int64_t gates = d.layers * steps * d.gates() * padded(d.hidden);
  s.d_gates = carver.take<T>(gates);
  const bool apart = d.cell == CellType::kGru || resets_before(d);
  s.d_gates_hidden = apart ? carver.take<T>(gates) : s.d_gates;
  s.d_keys = carver.take<T>(entries * padded(d.key_width()));
  s.d_values = carver.take<T>(entries * padded(d.memory));
  if (d.attention == AttentionType::kAdditive) s.d_vector = carver.take<T>(rows * padded(d.key));
  const std::int64_t widest = std::max(d.gates() * d.hidden, padded(d.embedding));
  s.canonical = carver.take<T>(steps * widest);
  s.emb = carver.take<T>(steps * d.embedding);
  return s;
}

}  // namespace sluice::kernels::attention_decoder::cpu
