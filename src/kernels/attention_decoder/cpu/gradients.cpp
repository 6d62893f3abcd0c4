#include "kernels/attention_decoder/cpu/backward.h"
#include "kernels/matmul/cpu/gemm.h"

namespace sluice::kernels::attention_decoder::cpu {
namespace {

/// gradient[m, n] += left[steps, m]^T * right[steps, n], row strides m, right_stride,
/// gradient_stride.
template <typename T>
void add_outer(std::int64_t steps, std::int64_t m, std::int64_t n, const T* left,
               std::int64_t left_stride, const T* right, std::int64_t right_stride, T* gradient,
               std::int64_t gradient_stride) {
  if (steps == 0) return;
  matmul::cpu::gemm<T>(true, false, m, n, steps, T(1), left, left_stride, right, right_stride, T(1),
                       gradient, gradient_stride);
}

/// sums[i] += the sum over rising rows of values[row, i].
template <typename T>
void add_columns(std::int64_t rows, std::int64_t width, const T* values, std::int64_t stride,
                 T* sums) {
  constexpr std::int64_t kColumns = 64;
#pragma omp parallel for schedule(static) if (rows * width > 65536)
  for (std::int64_t begin = 0; begin < width; begin += kColumns) {
    const std::int64_t count = std::min(kColumns, width - begin);
    T part[kColumns] = {};
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < count; ++i) part[i] += values[row * stride + begin + i];
    }
    for (std::int64_t i = 0; i < count; ++i) sums[begin + i] += part[i];
  }
}

/// Gradients of gates from panel order [steps, panels, G, 16] to [steps, G*H].
template <typename T>
void to_canonical(const BackwardRun<T>& run, const T* panels) {
  const Descriptor& d = run.d;
  const std::int64_t gates = d.gates(), width = gates * d.hidden;
#pragma omp parallel for schedule(static) if (run.steps() * width > 65536)
  for (std::int64_t step = 0; step < run.steps(); ++step) {
    const T* from = panels + step * run.gate_width();
    T* to = run.scratch.canonical + step * width;
    for (std::int64_t unit = 0; unit < d.hidden; unit += kPanel) {
      const std::int64_t count = std::min(kPanel, d.hidden - unit);
      for (std::int64_t gate = 0; gate < gates; ++gate, from += kPanel) {
        std::copy_n(from, count, to + gate * d.hidden + unit);
      }
    }
  }
}

/// emb with zeros past the rows' ends, where it may hold anything: 0 * NaN would be NaN.
template <typename T>
const T* clean_embedding(const BackwardRun<T>& run) {
  const std::int64_t width = run.d.embedding, rows = run.rows();
  const T* emb = run.args.forward.emb.template data_as<const T>();
  if (!run.args.forward.target_lengths) return emb;
#pragma omp parallel for schedule(static) if (run.steps() * width > 65536)
  for (std::int64_t step = 0; step < run.steps(); ++step) {
    T* target = run.scratch.emb + step * width;
    if (run.is_active(step % rows, step / rows)) {
      std::copy_n(emb + step * width, width, target);
    } else {
      std::fill_n(target, width, T(0));
    }
  }
  return run.scratch.emb;
}

/// Layer 0's input is [emb ; a_{t-1}], which stands nowhere as one matrix.
template <typename T>
void add_first_input(const BackwardRun<T>& run, T* gradient) {
  const Descriptor& d = run.d;
  const ForwardArgs& forward = run.args.forward;
  const std::int64_t width = d.gates() * d.hidden, stride = d.input_of(0), rows = run.rows();
  const T* gates = run.scratch.canonical;
  T* fed = gradient + d.embedding;
  add_outer(run.steps(), width, d.embedding, gates, width, clean_embedding(run), d.embedding,
            gradient, stride);
  if (run.steps() == 0) return;
  add_outer(run.steps() - rows, width, d.output, gates + rows * width, width,
            forward.a.data_as<const T>(), d.output, fed, stride);
  if (forward.a0) {
    add_outer(rows, width, d.output, gates, width, forward.a0.data_as<const T>(), d.output, fed,
              stride);
  }
}

template <typename T>
void add_cell(const BackwardRun<T>& run, std::int64_t l, const recurrent::LayerWeights& gradient) {
  const Descriptor& d = run.d;
  const std::int64_t width = d.gates() * d.hidden;
  to_canonical(run, run.d_gates(l, 0));
  if (gradient.weight_ih && l == 0) add_first_input(run, gradient.weight_ih.template data_as<T>());
  if (gradient.weight_ih && l > 0) {
    add_outer(run.steps(), width, d.hidden, run.scratch.canonical, width, run.trace.y(l - 1, 0),
              d.hidden, gradient.weight_ih.template data_as<T>(), d.hidden);
  }
  if (gradient.bias_ih) {
    add_columns(run.steps(), width, run.scratch.canonical, width,
                gradient.bias_ih.template data_as<T>());
  }
  if (d.cell == CellType::kGru) to_canonical(run, run.d_gates_hidden(l, 0));
  if (gradient.weight_hh) {
    T* target = gradient.weight_hh.template data_as<T>();
    const std::int64_t of_h = resets_before(d) ? 2 * d.hidden : width;  // the others are of r * h
    add_outer(run.steps(), of_h, d.hidden, run.scratch.canonical, width, run.trace.h(l, 0),
              d.hidden, target, d.hidden);
    if (of_h < width) {
      add_outer(run.steps(), width - of_h, d.hidden, run.scratch.canonical + of_h, width,
                run.trace.reset(l, 0), d.hidden, target + of_h * d.hidden, d.hidden);
    }
  }
  if (gradient.bias_hh) {
    add_columns(run.steps(), width, run.scratch.canonical, width,
                gradient.bias_hh.template data_as<T>());
  }
}

template <typename T>
void add_attention(const BackwardRun<T>& run) {
  const Descriptor& d = run.d;
  const Weights& gradients = run.args.gradients;
  const std::int64_t entries = run.rows() * run.trace.extents.source_time;
  const Tensor& key_weight =
      d.attention == AttentionType::kAdditive ? gradients.memory_weight : gradients.bilinear_weight;
  if (key_weight) {
    add_outer(entries, d.key_width(), d.memory, run.scratch.d_keys, run.key_stride(),
              run.trace.values, padded(d.memory), key_weight.template data_as<T>(), d.memory);
  }
  if (gradients.query_weight) {
    add_outer(run.steps(), d.key, d.hidden, run.scratch.d_query, run.key_stride(),
              run.trace.combined(0) + d.memory, run.trace.combined_width(),
              gradients.query_weight.template data_as<T>(), d.hidden);
  }
  if (gradients.score_vector) {
    add_columns(run.rows(), d.key, run.scratch.d_vector, run.key_stride(),
                gradients.score_vector.template data_as<T>());
  }
}

/// d_values = sum over t of alpha d_context, and d_keys likewise from q if multiplicative.
template <typename T>
void gather_memory_gradients(const BackwardRun<T>& run) {
  const Descriptor& d = run.d;
  const std::int64_t time = run.trace.extents.source_time, steps = run.trace.extents.target_time;
  const std::int64_t rows = run.rows(), values = padded(d.memory), keys = run.key_stride();
  const bool multiplicative = d.attention == AttentionType::kMultiplicative;
#pragma omp parallel for schedule(static) if (run.steps() * time * values > 65536)
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t s = 0; s < time; ++s) {
      const std::int64_t entry = row * time + s;
      run.leaf.attention->weighted_sum({steps, values, run.trace.alpha(0) + entry, rows * time,
                                        run.scratch.d_context + row * values, rows * values,
                                        run.scratch.d_values + entry * values});
      if (!multiplicative) continue;
      run.leaf.attention->weighted_sum({steps, keys, run.scratch.d_scores + entry, rows * time,
                                        run.trace.query(0) + row * keys, rows * keys,
                                        run.scratch.d_keys + entry * keys});
    }
  }
}

template <typename T>
void store_memory_gradient(const BackwardRun<T>& run, T* d_memory) {
  const Descriptor& d = run.d;
  const std::int64_t time = run.trace.extents.source_time, rows = run.rows();
  multiply_all(*run.leaf.cells,
               {run.scratch.d_keys, run.key_stride(), d.key_width(), d.memory, 1,
                run.weights.key_back, nullptr, true, run.scratch.d_values},
               rows * time);
#pragma omp parallel for schedule(static) if (rows * time * d.memory > 65536)
  for (std::int64_t s = 0; s < time; ++s) {
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(run.scratch.d_values + (row * time + s) * padded(d.memory), d.memory,
                  d_memory + (s * rows + row) * d.memory);
    }
  }
}

template <typename T>
void store_embedding_gradient(const BackwardRun<T>& run, T* d_emb) {
  const Descriptor& d = run.d;
  const std::int64_t width = padded(d.embedding);
  T* out = width == d.embedding ? d_emb : run.scratch.canonical;
  multiply_all(*run.leaf.cells,
               {run.d_gates(0, 0), run.gate_width(), run.gate_width(), d.embedding, 1,
                run.weights.layers[0].input_back, nullptr, false, out},
               run.steps());
  if (out == d_emb) return;
#pragma omp parallel for schedule(static) if (run.steps() * width > 65536)
  for (std::int64_t step = 0; step < run.steps(); ++step) {
    std::copy_n(out + step * width, d.embedding, d_emb + step * d.embedding);
  }
}

}  // namespace

template <typename T>
void finish_inputs(const BackwardRun<T>& run) {
  if (run.args.d_emb) store_embedding_gradient(run, run.args.d_emb.template data_as<T>());
  const Weights& gradients = run.args.gradients;
  if (!run.args.d_memory && !gradients.memory_weight && !gradients.bilinear_weight) return;
  gather_memory_gradients(run);
  if (run.args.d_memory) store_memory_gradient(run, run.args.d_memory.template data_as<T>());
}

template <typename T>
void finish_weights(const BackwardRun<T>& run) {
  const Descriptor& d = run.d;
  const Weights& gradients = run.args.gradients;
  for (std::size_t l = 0; l < gradients.cells.size(); ++l) {
    add_cell(run, static_cast<std::int64_t>(l), gradients.cells[l]);
  }
  add_attention(run);
  if (gradients.output_weight) {
    add_outer(run.steps(), d.output, run.trace.combined_width(), run.scratch.d_output, d.output,
              run.trace.combined(0), run.trace.combined_width(),
              gradients.output_weight.template data_as<T>(), run.trace.combined_width());
  }
  if (gradients.output_bias) {
    add_columns(run.steps(), d.output, run.scratch.d_output, d.output,
                gradients.output_bias.template data_as<T>());
  }
}

template void finish_inputs(const BackwardRun<double>&);
template void finish_inputs(const BackwardRun<float>&);
template void finish_weights(const BackwardRun<double>&);
template void finish_weights(const BackwardRun<float>&);

}  // namespace sluice::kernels::attention_decoder::cpu
