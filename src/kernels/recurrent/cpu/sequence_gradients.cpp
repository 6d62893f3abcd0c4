#include "kernels/recurrent/cpu/sequence_gradients.h"

#include <cstring>

#include "kernels/recurrent/cpu/outer_product.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

/// Canonical gradients that come from the same gate gradients; null: not wanted.
template <typename T>
struct GateTargets {
  std::array<Sum<T>*, 2> matrices{};  ///< [gates * hidden, width of input 0 or 1]
  std::array<Sum<T>*, 2> biases{};    ///< [gates * hidden]
  bool accumulate = true;             ///< whether they are added to, or written
};

template <typename T>
void store_gates(const Sizes& sizes, const Gates& gates, OuterProduct<T>& product, const T* d_gates,
                 const GateTargets<T>& targets) {
  const std::int64_t panel_width = gates.count * kPanel, width = gates.width(sizes);
  // As few pieces as fit, but as many for each thread.
  const std::int64_t threads = omp_get_num_threads(), most = kWeightGradientColumns / panel_width;
  const std::int64_t rounds = (sizes.panels + most * threads - 1) / (most * threads);
  const std::int64_t pieces = std::min(sizes.panels, rounds * threads);
#pragma omp for schedule(static) nowait
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const Range panels = part_of(sizes.panels, pieces, piece);
    const std::int64_t first = panels.begin * panel_width, columns = panels.size() * panel_width;
    Sum<T> sums[kWeightGradientColumns] = {};
    product.multiply(d_gates + first, width, columns, targets.matrices[0] != nullptr,
                     targets.matrices[1] != nullptr, sums);
    for (std::int64_t i = 0; i < columns; ++i) {
      const GateRow row(sizes, gates, first + i);
      if (row.unit >= sizes.hidden) continue;
      for (std::size_t k = 0; k < 2; ++k) {
        Sum<T>* matrix = targets.matrices[k];
        if (matrix) {
          product.store_row(k, i, matrix + row.canonical * product.width(k), targets.accumulate);
        }
        if (targets.biases[k]) {
          store_or_add(targets.biases[k][row.canonical], sums[i], targets.accumulate);
        }
      }
    }
  }
}

/// weight_hr [P, hidden] (+)= (gradients of the output)^T * what was projected, which is input 1.
template <typename T>
void store_projection(const Sizes& sizes, OuterProduct<T>& product, const T* dh, Sum<T>* target,
                      bool accumulate) {
  constexpr std::int64_t kColumns = 4 * kPanel;
#pragma omp for schedule(static) nowait
  for (std::int64_t first = 0; first < sizes.output; first += kColumns) {
    const std::int64_t columns = std::min(kColumns, sizes.output - first);
    product.multiply(dh + first, sizes.output, columns, false, true, nullptr);
    for (std::int64_t i = 0; i < columns; ++i) {
      product.store_row(1, i, target + (first + i) * sizes.hidden, accumulate);
    }
  }
}

}  // namespace

template <typename T>
void LayerGradients<T>::input_gradient(T* dx) const {
  const Sizes& sizes = sequence.sizes_of(layer);
  const Descriptor& descriptor = sequence.descriptor;
  const std::int64_t input = descriptor.input_of(layer), width = panels_of(input) * kPanel;
  const std::int64_t depth = steps * args.forward.rows;
  const bool dropped = layer > 0 && descriptor.dropout > 0;
  const runtime::DropoutKey key = dropout_of(args.forward, layer - 1);
  auto* sums = at<Sum<T>>(memory.workspace, scratch_of_thread(sequence).sums[0]);
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
  const Sizes& sizes = sequence.sizes_of(layer);
  const std::int64_t rows = args.forward.rows, depth = steps * rows;
  if (depth == 0) return write_zeros();
  OuterProduct<T> product(sequence, memory, depth);
  product.pack(0, x, sequence.descriptor.input_of(layer));
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    const auto i = static_cast<std::size_t>(layer * sizes.directions + d);
    const LayerWeights& target = args.gradients[i];
    auto* weight_ih = target.weight_ih.template data_as<Sum<T>>();
    auto* weight_hh = target.weight_hh.template data_as<Sum<T>>();
    auto* bias_ih = target.bias_ih.template data_as<Sum<T>>();
    auto* bias_hh = target.bias_hh.template data_as<Sum<T>>();
    const ReserveLayer& reserve = sequence.reserve.layers[i];
#pragma omp barrier
    // Row t is the state that step t started from: rows from 0 on, or from 1 on in reverse.
    const std::size_t h = sequence.descriptor.drops_recurrent() ? reserve.h_dropped : reserve.h;
    product.pack(1, at<const T>(memory.reserve, h) + d * rows * sizes.output, sizes.output);
    const Gates all{0, sizes.gates};
    const bool adds = args.accumulate;
    if (sizes.norms) {
      store_gates<T>(sizes, all, product, of_input(d), {{weight_ih, nullptr}, {}, adds});
      store_gates<T>(sizes, all, product, of_hidden(d), {{nullptr, weight_hh}, {}, adds});
      store_norms(d, target);
    } else if (sizes.resets_before) {
      store_gates<T>(sizes, all, product, of_input(d),
                     {{weight_ih, nullptr}, {bias_ih, bias_hh}, adds});
      for (std::int64_t gate = 0; weight_hh && gate < sizes.gates; ++gate) {
        if (gate == 2) {
#pragma omp barrier
          product.pack(1, at<const T>(memory.reserve, reserve.h_reset), sizes.hidden);
        }
        store_gates<T>(sizes, {gate, 1}, product, of_hidden(d) + gate * depth * sizes.state_width,
                       {{nullptr, weight_hh}, {}, adds});
      }
    } else if (!sizes.gates_apart) {
      store_gates<T>(sizes, all, product, of_input(d),
                     {{weight_ih, weight_hh}, {bias_ih, bias_hh}, adds});
    } else {
      store_gates<T>(sizes, all, product, of_input(d),
                     {{weight_ih, nullptr}, {bias_ih, nullptr}, adds});
      store_gates<T>(sizes, all, product, of_hidden(d),
                     {{nullptr, weight_hh}, {nullptr, bias_hh}, adds});
    }
    if (auto* peepholes = target.weight_peephole.template data_as<Sum<T>>()) {
      store_peepholes(d, peepholes);
    }
    if (auto* weight_hr = target.weight_hr.template data_as<Sum<T>>()) {
      const std::size_t dh = sequence.workspace.backward.dh_out[static_cast<std::size_t>(d)];
#pragma omp barrier
      product.pack(1, at<const T>(memory.reserve, reserve.h_full), sizes.hidden);
      store_projection(sizes, product, at<const T>(memory.workspace, dh), weight_hr, adds);
    }
  }
#pragma omp barrier
}

template <typename T>
void LayerGradients<T>::write_zeros() const {
  if (args.accumulate) return;
#pragma omp single
  for (std::int64_t d = 0; d < sequence.sizes_of(layer).directions; ++d) {
    const auto i = static_cast<std::size_t>(layer * sequence.sizes_of(layer).directions + d);
    for (Tensor LayerWeights::*member : kLayerTensors) {
      if (const Tensor& tensor = args.gradients[i].*member) {
        std::memset(tensor.data(), 0, tensor.byte_size());
      }
    }
  }
}

template <typename T>
void LayerGradients<T>::store_norms(std::int64_t direction, const LayerWeights& target) const {
  using S = Sum<T>;
  const Sizes& sizes = sequence.sizes_of(layer);
  const std::int64_t depth = steps * args.forward.rows;
  const auto d = static_cast<std::size_t>(direction);
  const ReserveLayer& reserve =
      sequence.reserve.layers[static_cast<std::size_t>(layer * sizes.directions) + d];
  const BackwardScratch& scratch = sequence.workspace.backward;
  // targets[..] [blocks, hidden] (+)= the sum of gradients [depth, panels, blocks, 16], and of
  // those times the factors that each target has, if any.
  const auto store_sums = [&](const auto* gradients, std::int64_t blocks,
                              std::array<const S*, 3> factors, std::array<S*, 3> targets) {
    const std::int64_t width = sizes.panels * blocks * kPanel;
#pragma omp for schedule(static) nowait
    for (std::int64_t first = 0; first < width; first += kPanel) {
      S sums[3][kPanel] = {};
      for (std::int64_t i = 0; i < depth; ++i) {
        for (std::size_t k = 0; k < 3; ++k) {
          for (std::int64_t lane = 0; targets[k] && lane < kPanel; ++lane) {
            const std::int64_t at = i * width + first + lane;
            const S value = static_cast<S>(gradients[at]);
            sums[k][lane] += factors[k] ? value * factors[k][at] : value;
          }
        }
      }
      const std::int64_t unit = first / kPanel / blocks * kPanel;
      const std::int64_t to = first / kPanel % blocks * sizes.hidden + unit;
      for (std::size_t k = 0; k < 3; ++k) {
        for (std::int64_t lane = 0; targets[k] && lane < std::min(kPanel, sizes.hidden - unit);
             ++lane) {
          store_or_add(targets[k][to + lane], sums[k][lane], args.accumulate);
        }
      }
    }
  };
  const auto of = [](const Tensor& tensor) { return tensor.data_as<S>(); };
  const auto* norm_ih = at<const S>(memory.reserve, reserve.norm_ih);
  const auto* norm_hh = at<const S>(memory.reserve, reserve.norm_hh);
  const auto* norm_c = at<const S>(memory.reserve, reserve.norm_c);
  const auto* d_sums = at<const T>(memory.workspace, scratch.d_sums[d]);
  store_sums(d_sums, 4, {nullptr, norm_ih, norm_hh},
             {of(target.bias_ih), of(target.gain_ih), of(target.gain_hh)});
  store_sums(d_sums, 4, {}, {of(target.bias_hh), nullptr, nullptr});
  store_sums(at<const S>(memory.workspace, scratch.d_norm_c[d]), 1, {norm_c, nullptr, nullptr},
             {of(target.gain_c), of(target.shift_c), nullptr});
}

template <typename T>
void LayerGradients<T>::store_peepholes(std::int64_t direction, Sum<T>* target) const {
  using S = Sum<T>;
  const Sizes& sizes = sequence.sizes_of(layer);
  const std::int64_t rows = args.forward.rows, depth = steps * rows, width = sizes.state_width;
  const ReserveLayer& reserve =
      sequence.reserve.layers[static_cast<std::size_t>(layer * sizes.directions + direction)];
  // As with h, row t + direction is the state before step t.
  const S* c = at<const S>(memory.reserve, reserve.c);
  const S* before = c + direction * rows * width;
  const S* after = sizes.fresh_cells ? at<const S>(memory.reserve, reserve.c_fresh)
                                     : c + (1 - direction) * rows * width;
#pragma omp for schedule(static) nowait
  for (std::int64_t panel = 0; panel < sizes.panels; ++panel) {
    S sums[3][kPanel] = {};
    for (std::int64_t i = 0; i < depth; ++i) {
      const T* d_gates = of_input(direction) + (i * sizes.panels + panel) * 4 * kPanel;
      const std::int64_t state = i * width + panel * kPanel;
      for (std::int64_t lane = 0; lane < kPanel; ++lane) {
        sums[0][lane] += static_cast<S>(d_gates[lane]) * before[state + lane];
        sums[1][lane] += static_cast<S>(d_gates[kPanel + lane]) * before[state + lane];
        sums[2][lane] += static_cast<S>(d_gates[3 * kPanel + lane]) * after[state + lane];
      }
    }
    const std::int64_t units = std::min(kPanel, sizes.hidden - panel * kPanel);
    for (std::int64_t gate = 0; gate < 3; ++gate) {
      for (std::int64_t lane = 0; lane < units; ++lane) {
        store_or_add(target[gate * sizes.hidden + panel * kPanel + lane], sums[gate][lane],
                     args.accumulate);
      }
    }
  }
}

template <typename T>
const T* LayerGradients<T>::of_input(std::int64_t direction) const {
  const auto d = static_cast<std::size_t>(direction);
  return at<const T>(memory.workspace, sequence.workspace.backward.d_gates[d]);
}

template <typename T>
const T* LayerGradients<T>::of_hidden(std::int64_t direction) const {
  if (!sequence.sizes.gates_apart) return of_input(direction);
  const auto d = static_cast<std::size_t>(direction);
  return at<const T>(memory.workspace, sequence.workspace.backward.d_gates_hidden[d]);
}

template struct LayerGradients<double>;
template struct LayerGradients<float>;
template struct LayerGradients<base::BFloat16>;

}  // namespace sluice::kernels::recurrent::cpu
