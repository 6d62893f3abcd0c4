#include <omp.h>

#include "kernels/recurrent/cpu/sequence_run.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

/// One thread's view of packing one layer and direction.
template <typename T>
struct LayerPacking {
  const Sequence<T>& sequence;
  const PackedLayer& packed;
  const LayerWeights& weights;
  const Memory& memory;
  std::int64_t layer, input;
  std::int64_t threads, thread;

  void pack(const Tensor& source, std::size_t target, std::int64_t block_stride,
            std::int64_t unit_stride, std::int64_t depth_stride, std::int64_t units,
            std::int64_t depth, std::int64_t blocks) const {
    const Range panels = part_of(panels_of(units), threads, thread);
    sequence.leaf->pack({source.data_as<const Sum<T>>(), block_stride, unit_stride, depth_stride,
                         units, depth, blocks, at<T>(memory.packed, target), panels.begin,
                         panels.end});
  }

  void pack_recurrent() const {
    const Sizes& sizes = sequence.sizes_of(layer);
    const std::int64_t hidden = sizes.hidden, output = sizes.output;
    if (!sizes.resets_before) {
      return pack(weights.weight_hh, packed.weight_hh, hidden * output, output, 1, hidden, output,
                  sizes.gates);
    }
    const auto* from = weights.weight_hh.data_as<const Sum<T>>();
    auto* to = at<T>(memory.packed, packed.weight_hh);
    const Range panels = part_of(sizes.panels, threads, thread);
    for (std::int64_t gate = 0; gate < sizes.gates; ++gate) {
      sequence.leaf->pack({from + gate * hidden * output, 0, output, 1, hidden, output, 1,
                           to + gate * packed.gate_size, panels.begin, panels.end});
    }
  }

  void pack_recurrent_transposed() const {
    const Sizes& sizes = sequence.sizes_of(layer);
    auto* to = at<T>(memory.packed, packed.weight_hh_t);
    if (!sizes.resets_before) {
      return pack_transposed(weights.weight_hh, {0, sizes.gates}, to, sizes.output);
    }
    for (std::int64_t gate = 0; gate < sizes.gates; ++gate) {
      pack_transposed(weights.weight_hh, {gate, 1}, to + gate * packed.gate_size_t, sizes.output);
    }
  }

  void pack_biases() const {
    const Sizes& sizes = sequence.sizes_of(layer);
    const auto* input_bias = weights.bias_ih.data_as<const Sum<T>>();
    const auto* hidden_bias = weights.bias_hh.data_as<const Sum<T>>();
    const Range panels = part_of(sizes.panels, threads, thread);
    for (std::int64_t unit = panels.begin * kPanel; unit < panels.end * kPanel; ++unit) {
      for (std::int64_t gate = 0; gate < sizes.gates; ++gate) {
        const bool inside = unit < sizes.hidden;
        const std::int64_t from = gate * sizes.hidden + unit;
        const Sum<T> of_input = inside ? input_bias[from] : 0;
        const Sum<T> of_hidden = inside ? hidden_bias[from] : 0;
        // The GRU's reset gate acts on R_n h + b_hn, so that bias joins the recurrent product.
        const bool apart = sizes.hidden_bias && gate == 2;
        const std::int64_t to = ((unit / kPanel) * sizes.gates + gate) * kPanel + unit % kPanel;
        at<Sum<T>>(memory.packed, packed.bias)[to] = apart ? of_input : of_input + of_hidden;
        if (apart) at<Sum<T>>(memory.packed, packed.bias_hn)[unit] = of_hidden;
      }
    }
  }

  /// Vectors of units, [blocks, hidden], to panels [panels, blocks, 16].
  void pack_vectors(const Tensor& source, std::size_t target, std::int64_t blocks) const {
    const Sizes& sizes = sequence.sizes_of(layer);
    const auto* from = source.data_as<const Sum<T>>();
    auto* to = at<Sum<T>>(memory.packed, target);
    const Range panels = part_of(sizes.panels, threads, thread);
    for (std::int64_t i = panels.begin * blocks * kPanel; i < panels.end * blocks * kPanel; ++i) {
      const std::int64_t block = i / kPanel % blocks;
      const std::int64_t unit = i / (blocks * kPanel) * kPanel + i % kPanel;
      to[i] = unit < sizes.hidden ? from[block * sizes.hidden + unit] : Sum<T>(0);
    }
  }

  /// Packs some gates of a matrix [gates * hidden, columns] transposed, by way of a few of its
  /// columns in panel order.
  void pack_transposed(const Tensor& source, const Gates& gates, T* target,
                       std::int64_t columns) const {
    const Sizes& sizes = sequence.sizes_of(layer);
    const PackScratch& scratch = sequence.workspace.pack;
    const auto* values = source.data_as<const Sum<T>>();
    auto* ordered = at<Sum<T>>(memory.workspace, scratch.threads[static_cast<std::size_t>(thread)]);
    Range panels = part_of(panels_of(columns), threads, thread);
    for (; panels.begin < panels.end; panels.begin += kTransposedPanels) {
      const Range some{panels.begin, std::min(panels.begin + kTransposedPanels, panels.end)};
      const Range units = units_of(some, columns);
      for (std::int64_t k = 0; k < gates.width(sizes); ++k) {
        const GateRow row(sizes, gates, k);
        Sum<T>* to = ordered + k * units.size();
        if (row.unit < sizes.hidden) {
          std::copy_n(values + row.canonical * columns + units.begin, units.size(), to);
        } else {
          std::fill_n(to, units.size(), Sum<T>(0));
        }
      }
      // The pack counts units from the first panel of the matrix.
      sequence.leaf->pack({ordered - units.begin, 0, 1, units.size(), columns, gates.width(sizes),
                           1, target, some.begin, some.end});
    }
  }

  void run() const {
    const Sizes& sizes = sequence.sizes_of(layer);
    const std::int64_t hidden = sizes.hidden, output = sizes.output;
    pack(weights.weight_ih, packed.weight_ih, hidden * input, input, 1, hidden, input, sizes.gates);
    pack_recurrent();
    if (sizes.projected) {
      pack(weights.weight_hr, packed.weight_hr, 0, hidden, 1, output, hidden, 1);
    }
    pack_biases();
    if (sequence.descriptor.peepholes) pack_vectors(weights.weight_peephole, packed.peepholes, 3);
    if (sizes.norms) {
      pack_vectors(weights.gain_ih, packed.gain_ih, 4);
      pack_vectors(weights.gain_hh, packed.gain_hh, 4);
      pack_vectors(weights.gain_c, packed.gain_c, 1);
      pack_vectors(weights.shift_c, packed.shift_c, 1);
    }
    if (!sequence.descriptor.training) return;
    pack_transposed(weights.weight_ih, {0, sizes.gates}, at<T>(memory.packed, packed.weight_ih_t),
                    input);
    pack_recurrent_transposed();
    if (sizes.projected) {
      pack(weights.weight_hr, packed.weight_hr_t, 0, 1, hidden, hidden, output, 1);
    }
  }
};

}  // namespace

template <typename T>
void run_pack(const Sequence<T>& sequence, const std::vector<LayerWeights>& weights,
              const Memory& memory) {
#pragma omp parallel num_threads(sequence.threads)
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i) / sequence.descriptor.directions;
    LayerPacking<T>{sequence,
                    sequence.packed.layers[i],
                    weights[i],
                    memory,
                    layer,
                    sequence.descriptor.input_of(layer),
                    omp_get_num_threads(),
                    omp_get_thread_num()}
        .run();
  }
}

template void run_pack(const Sequence<double>&, const std::vector<LayerWeights>&, const Memory&);
template void run_pack(const Sequence<float>&, const std::vector<LayerWeights>&, const Memory&);
template void run_pack(const Sequence<base::BFloat16>&, const std::vector<LayerWeights>&,
                       const Memory&);

}  // namespace sluice::kernels::recurrent::cpu
