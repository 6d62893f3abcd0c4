#pragma once

#include <algorithm>
#include <vector>

#include "kernels/attention_decoder/attention_decoder.h"
#include "kernels/attention_decoder/carver.h"
#include "kernels/attention_decoder/cuda/numbers.h"

/// Where everything lies in the memory of a plan. Each function lays a set of buffers out from a
/// Carver. Rows are padded with zeros to multiples of 8 elements: widths below are padded ones.
///
/// The LSTM and the GRU have four blocks of sums: i,f,g,o, and of the GRU r, z, the input's part of
/// n and the hidden part of n, whose weights are zero where the other part's product would be. A
/// plain RNN has one. So each step has one product for each layer, of its joint input [x ; h]. The
/// GRU that resets before the product has three and a product more: that of r * h is added to n's,
/// where the joint weights of h are zero.
namespace sluice::kernels::attention_decoder::cuda {

/// Source positions that one block of threads gathers gradients for.
constexpr std::int64_t kSourceTile = 8;

/// Padded widths.
struct Widths {
  explicit Widths(const Descriptor& d)
      : emb(padded(d.embedding)),
        hidden(padded(d.hidden)),
        memory(padded(d.memory)),
        key(padded(d.key_width())),
        output(padded(d.output)),
        blocks(d.cell == CellType::kGru ? 4 : d.gates()),
        input_gates(d.gates() * hidden) {}

  std::int64_t emb, hidden, memory, key, output;
  std::int64_t blocks;       ///< of a layer's sums: its gates, and the hidden part of the GRU's n
  std::int64_t input_gates;  ///< of emb's product: the GRU's has no hidden part of n
  std::int64_t gates() const { return blocks * hidden; }
  /// x of a layer; in layer 0 without emb.
  std::int64_t x(std::int64_t layer) const { return layer == 0 ? output : hidden; }
  std::int64_t joint(std::int64_t layer) const { return x(layer) + hidden; }
  std::int64_t combined() const { return memory + hidden; }
  /// Of the joint inputs of all layers.
  std::int64_t joints(std::int64_t layers) const {
    return layers * hidden + output + (layers - 1) * hidden;
  }
  /// Of the joint inputs of the layers below.
  std::int64_t joints_below(std::int64_t layer) const { return layer == 0 ? 0 : joints(layer); }
};

inline bool resets_before(const Descriptor& d) { return d.cell == CellType::kGruResetBefore; }

template <typename S>
struct PackedLayer {
  S* joint = nullptr;       ///< [blocks*H, x ; H]
  S* reset = nullptr;       ///< resets before: [H, H], n's weights of r * h
  Wide<S>* bias = nullptr;  ///< [blocks*H]: both biases, those of the GRU's n apart
};

template <typename S>
struct PackedWeights {
  std::vector<PackedLayer<S>> layers;
  S* emb = nullptr;                 ///< [G*H, E]: layer 0's weights of emb
  S* query = nullptr;               ///< additive [K, H]
  S* key = nullptr;                 ///< [K, M]: W_m, or W_a
  Wide<S>* score_vector = nullptr;  ///< additive [K]
  S* output = nullptr;              ///< [A, M ; H]
  Wide<S>* output_bias = nullptr;   ///< [A]
};

template <typename S>
PackedWeights<S> carve_packed(const Descriptor& d, Carver& carver) {
  const Widths w(d);
  PackedWeights<S> packed;
  for (std::int64_t l = 0; l < d.layers; ++l) {
    PackedLayer<S>& layer = packed.layers.emplace_back();
    layer.joint = carver.take<S>(w.gates() * w.joint(l));
    if (resets_before(d)) layer.reset = carver.take<S>(w.hidden * w.hidden);
    layer.bias = carver.take<Wide<S>>(w.gates());
  }
  packed.emb = carver.take<S>(w.input_gates * w.emb);
  if (d.attention == AttentionType::kAdditive) {
    packed.query = carver.take<S>(w.key * w.hidden);
    packed.score_vector = carver.take<Wide<S>>(w.key);
  }
  packed.key = carver.take<S>(w.key * w.memory);
  packed.output = carver.take<S>(w.output * w.combined());
  packed.output_bias = carver.take<Wide<S>>(w.output);
  return packed;
}

/// What the steps of a forward run leave behind. When training everything is kept for every step;
/// otherwise a few slots are used in turn: step t uses slot t modulo their number.
template <typename S>
struct Trace {
  Trace(const Descriptor& d, const Extents& run) : w(d), layers(d.layers), extents(run) {}

  Widths w;
  std::int64_t layers;
  Extents extents;
  std::int64_t joint_slots = 0;  ///< time + 1, or 2
  std::int64_t cell_slots = 0;   ///< time + 1, or 1
  std::int64_t step_slots = 0;   ///< time, or 1

  S* joint_base = nullptr;        ///< [L, joint_slots, B, x ; H]; slot t: the input of step t
  Wide<S>* c_base = nullptr;      ///< LSTM [L, cell_slots, B, H]; slot t: before step t
  S* saved_base = nullptr;        ///< training [L, T, B, blocks*H]: gates after activation
  S* reset_base = nullptr;        ///< resets before: [L, step_slots, B, H], r * h
  S* combined_base = nullptr;     ///< [step_slots, B, M ; H]: [context ; q]
  Wide<S>* query_base = nullptr;  ///< additive [step_slots, B, K]
  Wide<S>* alpha_base = nullptr;  ///< [step_slots, B, S]
  S* keys = nullptr;              ///< [B, S, K]
  S* values = nullptr;            ///< [B, S, M]: memory, zero past the rows' ends

  std::int64_t rows() const { return extents.rows; }
  S* joint(std::int64_t l, std::int64_t t) const {
    return joint_base + (w.joints_below(l) * joint_slots + w.joint(l) * (t % joint_slots)) * rows();
  }
  /// h before step t, a row every w.joint(l) elements.
  S* h(std::int64_t l, std::int64_t t) const { return joint(l, t) + w.x(l); }
  Wide<S>* c(std::int64_t l, std::int64_t t) const {
    if (c_base == nullptr) return nullptr;
    return c_base + (l * cell_slots + t % cell_slots) * rows() * w.hidden;
  }
  S* saved(std::int64_t l, std::int64_t t) const {
    if (saved_base == nullptr) return nullptr;
    return saved_base + (l * extents.target_time + t) * rows() * w.gates();
  }
  S* reset(std::int64_t l, std::int64_t t) const {
    if (reset_base == nullptr) return nullptr;
    return reset_base + (l * step_slots + t % step_slots) * rows() * w.hidden;
  }
  S* combined(std::int64_t t) const {
    return combined_base + t % step_slots * rows() * w.combined();
  }
  /// q as the top layer leaves it, a row every w.combined() elements.
  S* top(std::int64_t t) const { return combined(t) + w.memory; }
  Wide<S>* query(std::int64_t t) const {
    if (query_base == nullptr) return nullptr;
    return query_base + t % step_slots * rows() * w.key;
  }
  Wide<S>* alpha(std::int64_t t) const {
    return alpha_base + t % step_slots * rows() * extents.source_time;
  }
};

/// `extents` are those of the run, or the capacities to learn the size. `with_memory`: keys and
/// values as well; a single step is given them.
template <typename S>
Trace<S> carve_trace(const Descriptor& d, const Extents& extents, bool training, bool with_memory,
                     Carver& carver) {
  Trace<S> trace(d, extents);
  const Widths& w = trace.w;
  const std::int64_t time = extents.target_time, rows = extents.rows;
  trace.joint_slots = training ? time + 1 : 2;
  trace.cell_slots = training ? time + 1 : 1;
  trace.step_slots = training ? std::max<std::int64_t>(time, 1) : 1;
  trace.joint_base = carver.take<S>(trace.joint_slots * rows * w.joints(d.layers));
  if (d.cell == CellType::kLstm) {
    trace.c_base = carver.take<Wide<S>>(d.layers * trace.cell_slots * rows * w.hidden);
  }
  if (training) trace.saved_base = carver.take<S>(d.layers * time * rows * w.gates());
  if (resets_before(d)) {
    trace.reset_base = carver.take<S>(d.layers * trace.step_slots * rows * w.hidden);
  }
  trace.combined_base = carver.take<S>(trace.step_slots * rows * w.combined());
  if (d.attention == AttentionType::kAdditive) {
    trace.query_base = carver.take<Wide<S>>(trace.step_slots * rows * w.key);
  }
  trace.alpha_base = carver.take<Wide<S>>(trace.step_slots * rows * extents.source_time);
  if (with_memory) {
    trace.keys = carver.take<S>(rows * extents.source_time * w.key);
    trace.values = carver.take<S>(rows * extents.source_time * w.memory);
  }
  return trace;
}

/// Scratch of forward and step.
template <typename S>
struct ForwardScratch {
  S* emb = nullptr;            ///< [T, B, E] if emb's own rows are not padded
  Wide<S>* pre = nullptr;      ///< [T, B, G*H]: emb's products
  Wide<S>* sums = nullptr;     ///< [B, blocks*H]: of the layer at work
  Wide<S>* outputs = nullptr;  ///< [B, A]: before the tanh
};

template <typename S>
ForwardScratch<S> carve_forward(const Descriptor& d, const Extents& extents, Carver& carver) {
  const Widths w(d);
  const std::int64_t steps = extents.target_time * extents.rows;
  ForwardScratch<S> scratch;
  if (w.emb != d.embedding) scratch.emb = carver.take<S>(steps * w.emb);
  scratch.pre = carver.take<Wide<S>>(steps * w.input_gates);
  scratch.sums = carver.take<Wide<S>>(extents.rows * w.gates());
  scratch.outputs = carver.take<Wide<S>>(extents.rows * w.output);
  return scratch;
}

/// Scratch of backward: what the time loop hands on from step to step, and for every step what the
/// products over all time need afterwards.
template <typename S>
struct BackwardScratch {
  Wide<S>* d_joint = nullptr;     ///< [L, B, x ; H]: of the joint inputs of the step before
  Wide<S>* d_hidden = nullptr;    ///< [L, B, H]: of h past the products
  Wide<S>* d_cell = nullptr;      ///< LSTM [L, B, H]
  Wide<S>* d_reset = nullptr;     ///< resets before: [B, H], of r * h of the layer at work
  S* d_output = nullptr;          ///< [T, B, A]: before the tanh
  Wide<S>* d_combined = nullptr;  ///< [T, B, M ; H]
  S* d_query = nullptr;           ///< additive [T, B, K]
  Wide<S>* d_scores = nullptr;    ///< [T, B, S]
  S* d_gates = nullptr;           ///< [L, T, B, blocks*H]
  S* d_keys = nullptr;            ///< [B, S, K]
  Wide<S>* d_vector = nullptr;    ///< additive [B, tiles of S, K]: of the score vector
  Wide<S>* d_values = nullptr;    ///< [B, S, M]: of memory by way of the keys
  S* emb = nullptr;               ///< [T, B, E]: a copy with zeros past the rows' ends
};

constexpr std::int64_t source_tiles(std::int64_t source_time) {
  return (source_time + kSourceTile - 1) / kSourceTile;
}

template <typename S>
BackwardScratch<S> carve_backward(const Descriptor& d, const Extents& extents, Carver& carver) {
  const Widths w(d);
  const std::int64_t rows = extents.rows, steps = extents.target_time * rows;
  const std::int64_t entries = rows * extents.source_time;
  const bool additive = d.attention == AttentionType::kAdditive;
  BackwardScratch<S> s;
  s.d_joint = carver.take<Wide<S>>(rows * w.joints(d.layers));
  s.d_hidden = carver.take<Wide<S>>(d.layers * rows * w.hidden);
  if (d.cell == CellType::kLstm) s.d_cell = carver.take<Wide<S>>(d.layers * rows * w.hidden);
  if (resets_before(d)) s.d_reset = carver.take<Wide<S>>(rows * w.hidden);
  s.d_output = carver.take<S>(steps * w.output);
  s.d_combined = carver.take<Wide<S>>(steps * w.combined());
  if (additive) s.d_query = carver.take<S>(steps * w.key);
  s.d_scores = carver.take<Wide<S>>(steps * extents.source_time);
  s.d_gates = carver.take<S>(d.layers * steps * w.gates());
  s.d_keys = carver.take<S>(entries * w.key);
  if (additive) s.d_vector = carver.take<Wide<S>>(rows * source_tiles(extents.source_time) * w.key);
  s.d_values = carver.take<Wide<S>>(entries * w.memory);
  s.emb = carver.take<S>(steps * w.emb);
  return s;
}

}  // namespace sluice::kernels::attention_decoder::cuda
