#include "kernels/recurrent/cpu/sequence_gradients.h"

#include <omp.h>

#include "kernels/matmul/cpu/gemm.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

template <typename T>
Sum<T>* scratch_of_thread(const Sequence<T>& sequence, const Memory& memory) {
  const BackwardScratch& scratch = sequence.workspace.backward;
  const auto thread = static_cast<std::size_t>(omp_get_thread_num());
  return at<Sum<T>>(memory.workspace, scratch.per_thread + thread * scratch.per_thread_bytes);
}

/// The gradient of one matrix [gates * hidden, columns] = (gate gradients)^T * inputs.
template <typename T>
struct MatrixGradient {
  const T* d_gates;  ///< [depth, gate_width]
  const T* inputs;   ///< [depth, columns]
  std::int64_t depth, columns;
  Sum<T>* target;  ///< null: not wanted
};

/// Adds the rows of some panels: a product in panel order, which is then sorted into place.
template <typename T>
void add_panels(const Sizes& sizes, const MatrixGradient<T>& gradient, const Range& panels,
                Sum<T>* scratch) {
  const std::int64_t first = panels.begin * sizes.gates * kPanel;
  const std::int64_t sums = panels.size() * sizes.gates * kPanel;
  matmul::cpu::gemm<T>(true, false, sums, gradient.columns, gradient.depth, 1,
                       gradient.d_gates + first, sizes.gate_width, gradient.inputs,
                       gradient.columns, 0, scratch, gradient.columns);
  for (std::int64_t i = 0; i < sums; ++i) {
    const std::int64_t k = first + i;
    const std::int64_t unit = k / (sizes.gates * kPanel) * kPanel + k % kPanel;
    const std::int64_t gate = k / kPanel % sizes.gates;
    if (unit >= sizes.hidden) continue;
    const Sum<T>* from = scratch + i * gradient.columns;
    Sum<T>* to = gradient.target + (gate * sizes.hidden + unit) * gradient.columns;
    for (std::int64_t column = 0; column < gradient.columns; ++column) to[column] += from[column];
  }
}

template <typename T>
void add_matrix(const Sequence<T>& sequence, const Memory& memory,
                const MatrixGradient<T>& gradient) {
  if (gradient.target == nullptr) return;
  const std::int64_t panels = sequence.sizes.panels;
  const std::int64_t slices = (panels + kWeightGradientPanels - 1) / kWeightGradientPanels;
#pragma omp for schedule(static) nowait
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    const std::int64_t first = slice * kWeightGradientPanels;
    add_panels(sequence.sizes, gradient, {first, std::min(first + kWeightGradientPanels, panels)},
               scratch_of_thread(sequence, memory));
  }
}

/// target[gate * hidden + unit] += the sum over all steps and rows.
template <typename T>
void add_bias(const Sizes& sizes, const T* d_gates, std::int64_t depth, Sum<T>* target) {
  if (target == nullptr) return;
#pragma omp for schedule(static) nowait
  for (std::int64_t panel = 0; panel < sizes.panels; ++panel) {
    Sum<T> sums[4 * kPanel] = {};
    const std::int64_t width = sizes.gates * kPanel;
    for (std::int64_t row = 0; row < depth; ++row) {
      const T* values = d_gates + row * sizes.gate_width + panel * width;
      for (std::int64_t i = 0; i < width; ++i) sums[i] += static_cast<Sum<T>>(values[i]);
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int64_t unit = panel * kPanel + i % kPanel;
      if (unit < sizes.hidden) target[i / kPanel * sizes.hidden + unit] += sums[i];
    }
  }
}

/// weight_hr [P, hidden] += (gradients of the output)^T * what was projected.
template <typename T>
void add_projection(const Sizes& sizes, const T* dh, const T* h_full, std::int64_t depth,
                    Sum<T>* target) {
  if (target == nullptr) return;
#pragma omp for schedule(static) nowait
  for (std::int64_t panel = 0; panel < sizes.out_panels; ++panel) {
    const Range units = units_of({panel, panel + 1}, sizes.output);
    matmul::cpu::gemm<T>(true, false, units.size(), sizes.hidden, depth, 1, dh + units.begin,
                         sizes.output, h_full, sizes.hidden, 1, target + units.begin * sizes.hidden,
                         sizes.hidden);
  }
}

}  // namespace

template <typename T>
void LayerGradients<T>::input_gradient(T* dx) const {
  const Sizes& sizes = sequence.sizes;
  const Descriptor& descriptor = sequence.descriptor;
  const std::int64_t input = descriptor.input_of(layer), width = panels_of(input) * kPanel;
  const std::int64_t depth = steps * args.forward.rows;
  const bool dropped = layer > 0 && descriptor.dropout > 0;
  const runtime::DropoutKey key = dropout_of(args.forward, layer - 1);
  Sum<T>* sums = scratch_of_thread(sequence, memory);
#pragma omp for schedule(static)
  for (std::int64_t first = 0; first < depth; first += kInputGradientRows) {
    const std::int64_t rows = std::min(kInputGradientRows, depth - first);
    for (std::int64_t d = 0; d < sizes.directions; ++d) {
      const auto i = static_cast<std::size_t>(layer * sizes.directions + d);
      const std::size_t gates = sequence.workspace.backward.d_gates[static_cast<std::size_t>(d)];
      sequence.leaf->product({at<const T>(memory.workspace, gates) + first * sizes.gate_width,
                              sizes.gate_width, rows, sizes.gate_width, 1,
                              at<const T>(memory.packed, sequence.packed.layers[i].weight_ih_t),
                              nullptr, d > 0, sums, width, 0, panels_of(input)});
    }
    copy_units(dx + first * input, input, sums, width, {0, rows}, {0, input}, 0);
    for (std::int64_t row = first; dropped && row < first + rows; ++row) {
      apply_dropout(dx + row * input, input, key, descriptor.dropout,
                    row_id_of(args.forward, row % args.forward.rows),
                    static_cast<std::uint32_t>(row / args.forward.rows));
    }
  }
}

template <typename T>
void LayerGradients<T>::weight_gradients() const {
  if (args.gradients.empty()) return;
  const Sizes& sizes = sequence.sizes;
  const std::int64_t rows = args.forward.rows, depth = steps * rows;
  for (std::int64_t direction = 0; direction < sizes.directions; ++direction) {
    const auto d = static_cast<std::size_t>(direction);
    const auto i = static_cast<std::size_t>(layer * sizes.directions + direction);
    const LayerWeights& target = args.gradients[i];
    const ReserveLayer& reserve = sequence.reserve.layers[i];
    const BackwardScratch& scratch = sequence.workspace.backward;
    const auto* of_input = at<const T>(memory.workspace, scratch.d_gates[d]);
    const auto* of_hidden =
        sizes.lstm ? of_input : at<const T>(memory.workspace, scratch.d_gates_hidden[d]);
    // Row t is the state that step t started from: rows from 0 on, or from 1 on in reverse.
    const T* h_prev = at<const T>(memory.reserve, reserve.h) + direction * rows * sizes.output;
    add_matrix<T>(sequence, memory,
                  {of_input, x, depth, sequence.descriptor.input_of(layer),
                   target.weight_ih.template data_as<Sum<T>>()});
    add_matrix<T>(
        sequence, memory,
        {of_hidden, h_prev, depth, sizes.output, target.weight_hh.template data_as<Sum<T>>()});
    add_bias(sizes, of_input, depth, target.bias_ih.template data_as<Sum<T>>());
    add_bias(sizes, of_hidden, depth, target.bias_hh.template data_as<Sum<T>>());
    if (sizes.projected) {
      add_projection(sizes, at<const T>(memory.workspace, scratch.dh_out[d]),
                     at<const T>(memory.reserve, reserve.h_full), depth,
                     target.weight_hr.template data_as<Sum<T>>());
    }
  }
#pragma omp barrier
}

template struct LayerGradients<double>;
template struct LayerGradients<float>;
template struct LayerGradients<base::BFloat16>;

}  // namespace sluice::kernels::recurrent::cpu
