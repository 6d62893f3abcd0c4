#include "kernels/recurrent/cpu/sequence_gradients.h"

#include <omp.h>

#include "kernels/recurrent/cpu/transpose.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

template <typename T>
const ThreadScratch& scratch_of_thread(const Sequence<T>& sequence) {
  return sequence.workspace.backward.threads[static_cast<std::size_t>(omp_get_thread_num())];
}

/// An integer of the size of a value: transposing moves bits only.
template <typename T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;

/// to[i, k] = from[k, i] for all depth by columns.
template <typename T>
void transpose(const T* from, std::int64_t from_stride, std::int64_t depth, std::int64_t columns,
               T* to, std::int64_t to_stride) {
  constexpr int kLanes = 16 / sizeof(T);  // what every x86-64 register holds
  for (std::int64_t k = 0; k < depth; k += kPanel) {
    for (std::int64_t i = 0; i < columns; i += kPanel) {
      const std::int64_t k_end = std::min(k + kPanel, depth), i_end = std::min(i + kPanel, columns);
      if (k_end - k == kPanel && i_end - i == kPanel) {
        for (std::int64_t j = i; j < i_end; j += kLanes) {
          for (std::int64_t row = k; row < k_end; row += kLanes) {
            transpose_square<kLanes>(
                reinterpret_cast<const Bits<T>*>(from + row * from_stride + j), from_stride,
                reinterpret_cast<Bits<T>*>(to + j * to_stride + row), to_stride);
          }
        }
        continue;
      }
      for (std::int64_t j = i; j < i_end; ++j) {
        for (std::int64_t row = k; row < k_end; ++row) {
          to[j * to_stride + row] = from[row * from_stride + j];
        }
      }
    }
  }
}

/// Gradients of matrices: (columns of gradients)^T * inputs, summed over all steps and rows. The
/// inputs are packed once, in pieces of the depth, for all threads and columns.
template <typename T>
class OuterProduct {
 public:
  OuterProduct(const Sequence<T>& sequence, const Memory& memory, std::int64_t depth)
      : sequence_(sequence),
        depth_(depth),
        packed_(at<T>(memory.workspace, sequence.workspace.backward.inputs)),
        sums_(at<Sum<T>>(memory.workspace, scratch_of_thread(sequence).sums)),
        columns_(at<T>(memory.workspace, scratch_of_thread(sequence).columns)) {}

  /// Packs inputs [depth, width]; to be called by all threads, which meet at the end.
  void pack(const T* inputs, std::int64_t width) {
    width_ = width;
    piece_size_ = sequence_.leaf->packed_size(width, kWeightGradientDepth, 1);
#pragma omp for schedule(static)
    for (std::int64_t first = 0; first < depth_; first += kWeightGradientDepth) {
      sequence_.leaf->pack_stored({inputs + first * width, 0, 1, width, width,
                                   std::min(kWeightGradientDepth, depth_ - first), 1,
                                   packed_ + first / kWeightGradientDepth * piece_size_, 0,
                                   panels_of(width)});
    }
  }

  /// This thread's sums [columns, sum_stride()] for some columns of gradients.
  const Sum<T>* multiply(const T* gradients, std::int64_t stride, std::int64_t columns) {
    for (std::int64_t first = 0; first < depth_; first += kWeightGradientDepth) {
      const std::int64_t depth = std::min(kWeightGradientDepth, depth_ - first);
      transpose(gradients + first * stride, stride, depth, columns, columns_, kColumnStride);
      sequence_.leaf->product({columns_, kColumnStride, columns, depth, 1,
                               packed_ + first / kWeightGradientDepth * piece_size_, nullptr,
                               first > 0, sums_, sum_stride(), 0, panels_of(width_)});
    }
    return sums_;
  }

  std::int64_t width() const { return width_; }
  std::int64_t sum_stride() const { return panels_of(width_) * kPanel; }

 private:
  const Sequence<T>& sequence_;
  const std::int64_t depth_;
  T* packed_;
  Sum<T>* sums_;
  T* columns_;
  std::int64_t width_ = 0, piece_size_ = 0;
};

template <typename S>
void add_row(S* to, const S* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

/// target [gates * hidden, width] += (gate gradients)^T * the packed inputs.
template <typename T>
void add_gates(const Sizes& sizes, OuterProduct<T>& product, const T* d_gates, Sum<T>* target) {
  if (target == nullptr) return;
  const std::int64_t panel_width = sizes.gates * kPanel;
  const std::int64_t fair = std::max<std::int64_t>(1, sizes.panels / omp_get_num_threads());
  const std::int64_t at_once = std::min(fair, kWeightGradientColumns / panel_width);
#pragma omp for schedule(static) nowait
  for (std::int64_t panel = 0; panel < sizes.panels; panel += at_once) {
    const std::int64_t columns = std::min(at_once, sizes.panels - panel) * panel_width;
    const Sum<T>* sums = product.multiply(d_gates + panel * panel_width, sizes.gate_width, columns);
    for (std::int64_t i = 0; i < columns; ++i) {
      const GateRow at(sizes, panel * panel_width + i);
      if (at.unit >= sizes.hidden) continue;
      add_row(target + at.canonical * product.width(), sums + i * product.sum_stride(),
              product.width());
    }
  }
}

/// weight_hr [P, hidden] += (gradients of the output)^T * what was projected, which is packed.
template <typename T>
void add_projection(const Sizes& sizes, OuterProduct<T>& product, const T* dh, Sum<T>* target) {
  constexpr std::int64_t kColumns = 4 * kPanel;
#pragma omp for schedule(static) nowait
  for (std::int64_t first = 0; first < sizes.output; first += kColumns) {
    const std::int64_t columns = std::min(kColumns, sizes.output - first);
    const Sum<T>* sums = product.multiply(dh + first, sizes.output, columns);
    for (std::int64_t i = 0; i < columns; ++i) {
      add_row(target + (first + i) * sizes.hidden, sums + i * product.sum_stride(), sizes.hidden);
    }
  }
}

/// target[gate * hidden + unit] += the sum over all steps and rows.
template <typename T>
void add_bias(const Sizes& sizes, const T* d_gates, std::int64_t depth, Sum<T>* target) {
  if (target == nullptr) return;
#pragma omp for schedule(static) nowait
  for (std::int64_t first = 0; first < sizes.gate_width; first += kWeightGradientColumns) {
    const std::int64_t columns = std::min(kWeightGradientColumns, sizes.gate_width - first);
    Sum<T> sums[kWeightGradientColumns] = {};
    for (std::int64_t row = 0; row < depth; ++row) {
      const T* values = d_gates + row * sizes.gate_width + first;
      for (std::int64_t i = 0; i < columns; ++i) sums[i] += static_cast<Sum<T>>(values[i]);
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      const GateRow at(sizes, first + i);
      if (at.unit < sizes.hidden) target[at.canonical] += sums[i];
    }
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
  auto* sums = at<Sum<T>>(memory.workspace, scratch_of_thread(sequence).sums);
#pragma omp for schedule(static)
  for (std::int64_t first = 0; first < depth; first += kInputGradientRows) {
    const std::int64_t rows = std::min(kInputGradientRows, depth - first);
    for (std::int64_t d = 0; d < sizes.directions; ++d) {
      const auto i = static_cast<std::size_t>(layer * sizes.directions + d);
      sequence.leaf->product({of_input(d) + first * sizes.gate_width, sizes.gate_width, rows,
                              sizes.gate_width, 1,
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
  if (depth == 0) return;
  OuterProduct<T> product(sequence, memory, depth);
  product.pack(x, sequence.descriptor.input_of(layer));
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    const LayerWeights& target = targets(d);
    add_gates(sizes, product, of_input(d), target.weight_ih.template data_as<Sum<T>>());
    add_bias(sizes, of_input(d), depth, target.bias_ih.template data_as<Sum<T>>());
    add_bias(sizes, of_hidden(d), depth, target.bias_hh.template data_as<Sum<T>>());
  }
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    const LayerWeights& target = targets(d);
    const ReserveLayer& reserve =
        sequence.reserve.layers[static_cast<std::size_t>(layer * sizes.directions + d)];
    if (target.weight_hh) {
      // Row t is the state that step t started from: rows from 0 on, or from 1 on in reverse.
      const T* h = at<const T>(memory.reserve, reserve.h) + d * rows * sizes.output;
#pragma omp barrier
      product.pack(h, sizes.output);
      add_gates(sizes, product, of_hidden(d), target.weight_hh.template data_as<Sum<T>>());
    }
    if (target.weight_hr) {
      const std::size_t dh = sequence.workspace.backward.dh_out[static_cast<std::size_t>(d)];
#pragma omp barrier
      product.pack(at<const T>(memory.reserve, reserve.h_full), sizes.hidden);
      add_projection(sizes, product, at<const T>(memory.workspace, dh),
                     target.weight_hr.template data_as<Sum<T>>());
    }
  }
#pragma omp barrier
}

template <typename T>
const T* LayerGradients<T>::of_input(std::int64_t direction) const {
  const auto d = static_cast<std::size_t>(direction);
  return at<const T>(memory.workspace, sequence.workspace.backward.d_gates[d]);
}

template <typename T>
const T* LayerGradients<T>::of_hidden(std::int64_t direction) const {
  if (sequence.sizes.lstm) return of_input(direction);
  const auto d = static_cast<std::size_t>(direction);
  return at<const T>(memory.workspace, sequence.workspace.backward.d_gates_hidden[d]);
}

template <typename T>
const LayerWeights& LayerGradients<T>::targets(std::int64_t direction) const {
  return args.gradients[static_cast<std::size_t>(layer * sequence.sizes.directions + direction)];
}

template struct LayerGradients<double>;
template struct LayerGradients<float>;
template struct LayerGradients<base::BFloat16>;

}  // namespace sluice::kernels::recurrent::cpu
