#include "kernels/attention_decoder/cpu/pack.h"

#include "kernels/attention_decoder/cpu/share.h"

namespace sluice::kernels::attention_decoder::cpu {
namespace {

/// One packed matrix: element (k, block, unit) at source[block * block_stride + unit * unit_stride
/// + k * depth_stride]. `row` and `row_depth` are as in PackArgs.
template <typename T>
void pack_matrix(const Leaf<T>& leaf, const T* source, std::int64_t block_stride,
                 std::int64_t unit_stride, std::int64_t depth_stride, std::int64_t units,
                 std::int64_t depth, std::int64_t blocks, T* packed, const T* row = nullptr,
                 std::int64_t row_depth = 0) {
  const std::int64_t panels = panels_of(units);
  const std::int64_t parts = std::min<std::int64_t>(panels, threads_for(units * depth * blocks));
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(parts))
  for (std::int64_t part = 0; part < parts; ++part) {
    const Range range = part_of(panels, parts, part);
    leaf.pack({source, block_stride, unit_stride, depth_stride, units, depth, blocks, packed,
               range.begin, range.end, row, row_depth});
  }
}

/// weight [units, depth] with a row stride, to multiply a [rows, depth] by.
template <typename T>
void pack_plain(const Leaf<T>& leaf, const T* weight, std::int64_t stride, std::int64_t units,
                std::int64_t depth, T* packed, const T* row = nullptr) {
  pack_matrix(leaf, weight, 0, stride, 1, units, depth, 1, packed, row, stride);
}

/// The same weight, to multiply gradients [rows, units] by: yields [rows, depth].
template <typename T>
void pack_back(const Leaf<T>& leaf, const T* weight, std::int64_t stride, std::int64_t units,
               std::int64_t depth, T* packed) {
  if (packed == nullptr) return;
  pack_matrix(leaf, weight, 0, 1, stride, depth, units, 1, packed);
}

template <typename T>
void copy_padded(const T* source, std::int64_t count, T* target) {
  std::copy_n(source, count, target);
  std::fill(target + count, target + padded(count), T(0));
}

/// Rows of a matrix of some gates in panel order [panels, gates, 16], zero for padded units.
template <typename T>
void to_panel_rows(const Descriptor& d, std::int64_t gates, const T* weight, std::int64_t width,
                   T* panels) {
  const std::int64_t count = gates * padded(d.hidden);
#pragma omp parallel for schedule(static) if (count * width > 65536)
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t unit = i / (gates * kPanel) * kPanel + i % kPanel;
    const std::int64_t row = i / kPanel % gates * d.hidden + unit;
    if (unit < d.hidden) {
      std::copy_n(weight + row * width, width, panels + i * width);
    } else {
      std::fill_n(panels + i * width, width, T(0));
    }
  }
}

template <typename T>
void pack_bias(const Descriptor& d, const T* bias_ih, const T* bias_hh,
               const PackedLayer<T>& layer) {
  for (std::int64_t i = 0; i < d.gates() * padded(d.hidden); ++i) {
    const std::int64_t unit = i / (d.gates() * kPanel) * kPanel + i % kPanel;
    const std::int64_t gate = i / kPanel % d.gates();
    const std::int64_t at = gate * d.hidden + unit;
    const bool apart = d.cell == CellType::kGru && gate == 2;
    if (unit >= d.hidden) {
      layer.bias[i] = 0;
    } else {
      layer.bias[i] = apart ? bias_ih[at] : bias_ih[at] + bias_hh[at];
    }
  }
  if (layer.bias_hn != nullptr) copy_padded(bias_hh + 2 * d.hidden, d.hidden, layer.bias_hn);
}

template <typename T>
void pack_recurrent(const Descriptor& d, const Leaf<T>& leaf, const T* weight,
                    const PackedLayer<T>& layer, T* scratch) {
  const std::int64_t gates = resets_before(d) ? 1 : d.gates();
  for (std::int64_t gate = 0; gate < d.gates(); gate += gates) {
    const T* from = weight + gate * d.hidden * d.hidden;
    pack_matrix(leaf, from, d.hidden * d.hidden, d.hidden, 1, d.hidden, d.hidden, gates,
                layer.recurrent + gate * layer.gate_size);
    if (!d.training) continue;
    to_panel_rows(d, gates, from, d.hidden, scratch);
    pack_back(leaf, scratch, d.hidden, gates * padded(d.hidden), d.hidden,
              layer.recurrent_back + gate * layer.gate_size_back);
  }
}

template <typename T>
void pack_layer(const Descriptor& d, const Leaf<T>& leaf, std::int64_t l,
                const recurrent::LayerWeights& weights, const PackedWeights<T>& packed,
                T* scratch) {
  const PackedLayer<T>& layer = packed.layers[static_cast<std::size_t>(l)];
  const T* weight_ih = weights.weight_ih.data_as<const T>();
  const T* weight_hh = weights.weight_hh.data_as<const T>();
  const std::int64_t width = d.input_of(l), input = l == 0 ? d.embedding : d.hidden;
  const std::int64_t gates = d.gates(), depth = gates * padded(d.hidden);
  pack_matrix(leaf, weight_ih, d.hidden * width, width, 1, d.hidden, input, gates, layer.input,
              weight_ih, width);
  if (l == 0) {
    pack_matrix(leaf, weight_ih + d.embedding, d.hidden * width, width, 1, d.hidden, d.output,
                gates, packed.feed, weight_ih, width);
  }
  pack_recurrent(d, leaf, weight_hh, layer, scratch);
  pack_bias(d, weights.bias_ih.data_as<const T>(), weights.bias_hh.data_as<const T>(), layer);
  if (!d.training) return;
  to_panel_rows(d, gates, weight_ih, width, scratch);
  pack_back(leaf, scratch, width, depth, input, layer.input_back);
  if (l == 0) pack_back(leaf, scratch + d.embedding, width, depth, d.output, packed.feed_back);
}

}  // namespace

std::int64_t pack_scratch_size(const Descriptor& d) {
  return d.training ? d.gates() * padded(d.hidden) * std::max(d.input_of(0), d.hidden) : 0;
}

template <typename T>
void pack_weights(const Descriptor& d, const Leaf<T>& leaf, const Weights& weights,
                  const Memory& memory) {
  Carver carver(memory.packed);
  const PackedWeights<T> packed = carve_packed(d, leaf, carver);
  T* scratch = static_cast<T*>(memory.workspace);
  for (std::int64_t l = 0; l < d.layers; ++l) {
    pack_layer(d, leaf, l, weights.cells[static_cast<std::size_t>(l)], packed, scratch);
  }
  const bool additive = d.attention == AttentionType::kAdditive;
  const T* key = (additive ? weights.memory_weight : weights.bilinear_weight).data_as<const T>();
  pack_plain(leaf, key, d.memory, d.key_width(), d.memory, packed.key);
  pack_back(leaf, key, d.memory, d.key_width(), d.memory, packed.key_back);
  if (additive) {
    const T* query = weights.query_weight.data_as<const T>();
    pack_plain(leaf, query, d.hidden, d.key, d.hidden, packed.query);
    pack_back(leaf, query, d.hidden, d.key, d.hidden, packed.query_back);
    copy_padded(weights.score_vector.data_as<const T>(), d.key, packed.score_vector);
  }
  const T* context = weights.output_weight.data_as<const T>();
  const std::int64_t stride = d.memory + d.hidden;
  pack_plain(leaf, context, stride, d.output, d.memory, packed.output_context, context);
  pack_back(leaf, context, stride, d.output, d.memory, packed.output_context_back);
  const T* query = context + d.memory;
  pack_plain(leaf, query, stride, d.output, d.hidden, packed.output_query, context);
  pack_back(leaf, query, stride, d.output, d.hidden, packed.output_query_back);
  copy_padded(weights.output_bias.data_as<const T>(), d.output, packed.output_bias);
}

template void pack_weights(const Descriptor&, const Leaf<double>&, const Weights&, const Memory&);
template void pack_weights(const Descriptor&, const Leaf<float>&, const Weights&, const Memory&);

}  // namespace sluice::kernels::attention_decoder::cpu
