#include "kernels/attention_decoder/cuda/backward.h"
#include "kernels/attention_decoder/cuda/row_kernels.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

/// Whether the keys' gradient is wanted for anything.
template <typename S>
bool needs_keys(const BackwardRun<S>& run) {
  const Weights& gradients = run.args.gradients;
  return run.args.d_memory || gradients.memory_weight || gradients.bilinear_weight ||
         gradients.score_vector;
}

template <typename S>
void store_memory_gradient(const BackwardRun<S>& run) {
  const Widths& w = run.w;
  const std::int64_t entries = run.rows() * run.trace.extents.source_time;
  run.product(entries, w.memory, w.key, {run.scratch.d_keys, w.key}, {run.weights.key, w.memory},
              run.scratch.d_values, w.memory);
  gather_memory_gradients<S>(
      run.stream(),
      {run.attended, run.trace.extents.target_time, run.d.memory, run.trace.alpha(0),
       run.d_combined(0), w.combined(), run.scratch.d_values, data_of<S>(run.args.d_memory)});
}

/// gradient[width, n] += left[steps, width]^T * right[steps, n].
template <typename S>
void add_outer(const BackwardRun<S>& run, std::int64_t steps, std::int64_t width, std::int64_t n,
               const S* left, std::int64_t left_stride, const S* right, std::int64_t right_stride,
               Wide<S>* gradient, std::int64_t stride) {
  multiply(run.context, {width,
                         n,
                         steps,
                         {left, left_stride, true},
                         {right, right_stride},
                         gradient,
                         stride,
                         true,
                         run.factor,
                         storage_dtype<S>(),
                         storage_dtype<Wide<S>>()});
}

/// Some gates' gradients, blocks of padded width, and the rows of a gradient that they go to.
struct GateBlocks {
  std::int64_t first_block = 0, first_gate = 0, count = 0;
};

/// Those of the input's product or of h's.
std::vector<GateBlocks> blocks_of(CellType cell, bool recurrent) {
  if (recurrent && cell == CellType::kGruResetBefore) return {{0, 0, 2}};
  if (cell != CellType::kGru) return {{0, 0, recurrent::gates_of(cell)}};
  if (!recurrent) return {{0, 0, 3}};
  return {{0, 0, 2}, {3, 2, 1}};
}

/// Calls add(block, gate, units) for runs of units that lie next to each other on both sides.
template <typename S, typename Add>
void for_gates(const BackwardRun<S>& run, bool recurrent, Add add) {
  const std::int64_t units = run.d.hidden;
  for (const GateBlocks& part : blocks_of(run.d.cell, recurrent)) {
    if (run.w.hidden == units) {
      add(part.first_block, part.first_gate, part.count * units);
      continue;
    }
    for (std::int64_t i = 0; i < part.count; ++i) {
      add(part.first_block + i, part.first_gate + i, units);
    }
  }
}

/// gradient[G*H, n] += d_gates^T * right[steps, n].
template <typename S>
void add_weight(const BackwardRun<S>& run, std::int64_t l, bool recurrent, const S* right,
                std::int64_t right_stride, std::int64_t n, Wide<S>* gradient, std::int64_t stride) {
  for_gates(run, recurrent, [&](std::int64_t block, std::int64_t gate, std::int64_t width) {
    add_outer(run, run.lines(), width, n, run.d_gates(l, 0) + block * run.w.hidden, run.w.gates(),
              right, right_stride, gradient + gate * run.d.hidden * stride, stride);
  });
}

/// `other`, which may be absent, has the same gradient.
template <typename S>
void add_bias(const BackwardRun<S>& run, std::int64_t l, bool recurrent, const Tensor& gradient,
              const Tensor& other = {}) {
  if (!gradient) return;
  for_gates(run, recurrent, [&](std::int64_t block, std::int64_t gate, std::int64_t width) {
    const std::int64_t first = gate * run.d.hidden;
    add_columns(run.stream(), run.lines(), width, run.d_gates(l, 0) + block * run.w.hidden,
                run.w.gates(), run.factor, data_of<Wide<S>>(gradient) + first,
                offset_or_null(data_of<Wide<S>>(other), first));
  });
}

/// emb with zeros past the rows' ends, where it may hold anything: 0 * NaN would be NaN.
template <typename S>
const S* clean_embedding(const BackwardRun<S>& run) {
  const S* emb = data_of<const S>(run.args.forward.emb);
  if (run.w.emb == run.d.embedding && run.attended.target_lengths == nullptr) return emb;
  clean_sequence<S>(run.stream(), {run.trace.extents.target_time, run.rows(), run.d.embedding,
                                   run.w.emb, emb, run.attended.target_lengths, run.scratch.emb});
  return run.scratch.emb;
}

template <typename S>
void add_cell(const BackwardRun<S>& run, std::int64_t l, const recurrent::LayerWeights& gradient) {
  using W = Wide<S>;
  const Descriptor& d = run.d;
  const Widths& w = run.w;
  const S* joint = run.trace.joint(l, 0);
  if (gradient.weight_ih && run.lines() > 0) {
    W* target = data_of<W>(gradient.weight_ih);
    const std::int64_t stride = d.input_of(l), skipped = l == 0 ? d.embedding : 0;
    if (l == 0) {
      add_weight(run, l, false, clean_embedding(run), w.emb, d.embedding, target, stride);
    }
    add_weight(run, l, false, joint, w.joint(l), stride - skipped, target + skipped, stride);
  }
  if (gradient.weight_hh) {
    add_weight(run, l, true, joint + w.x(l), w.joint(l), d.hidden, data_of<W>(gradient.weight_hh),
               d.hidden);
  }
  if (gradient.weight_hh && resets_before(d)) {
    add_outer(run, run.lines(), d.hidden, d.hidden, run.d_gates(l, 0) + 2 * w.hidden, w.gates(),
              run.trace.reset(l, 0), w.hidden,
              data_of<W>(gradient.weight_hh) + 2 * d.hidden * d.hidden, d.hidden);
  }
  if (d.cell != CellType::kGru) {
    // Both biases are added to the same sums.
    return gradient.bias_ih ? add_bias(run, l, false, gradient.bias_ih, gradient.bias_hh)
                            : add_bias(run, l, false, gradient.bias_hh);
  }
  add_bias(run, l, false, gradient.bias_ih);
  add_bias(run, l, true, gradient.bias_hh);
}

template <typename S>
void add_attention(const BackwardRun<S>& run) {
  using W = Wide<S>;
  const Descriptor& d = run.d;
  const Widths& w = run.w;
  const Weights& gradients = run.args.gradients;
  const std::int64_t source_time = run.trace.extents.source_time;
  const Tensor& key_weight =
      run.is_additive() ? gradients.memory_weight : gradients.bilinear_weight;
  if (key_weight) {
    add_outer<S>(run, run.rows() * source_time, d.key_width(), d.memory, run.scratch.d_keys, w.key,
                 run.trace.values, w.memory, data_of<W>(key_weight), d.memory);
  }
  if (gradients.query_weight) {
    add_outer<S>(run, run.lines(), d.key, d.hidden, run.scratch.d_query, w.key, run.trace.top(0),
                 w.combined(), data_of<W>(gradients.query_weight), d.hidden);
  }
  if (gradients.score_vector) {
    add_columns<W, W>(run.stream(), run.rows() * source_tiles(source_time), d.key,
                      run.scratch.d_vector, w.key, run.factor, data_of<W>(gradients.score_vector));
  }
}

template <typename S>
void add_output(const BackwardRun<S>& run) {
  using W = Wide<S>;
  const Descriptor& d = run.d;
  const Widths& w = run.w;
  const Weights& gradients = run.args.gradients;
  if (gradients.output_weight) {
    W* target = data_of<W>(gradients.output_weight);
    const std::int64_t stride = d.memory + d.hidden;
    const bool whole = w.memory == d.memory;
    add_outer<S>(run, run.lines(), d.output, whole ? stride : d.memory, run.scratch.d_output,
                 w.output, run.trace.combined(0), w.combined(), target, stride);
    if (!whole) {
      add_outer<S>(run, run.lines(), d.output, d.hidden, run.scratch.d_output, w.output,
                   run.trace.top(0), w.combined(), target + d.memory, stride);
    }
  }
  if (gradients.output_bias) {
    add_columns(run.stream(), run.lines(), d.output, run.scratch.d_output, w.output, run.factor,
                data_of<W>(gradients.output_bias));
  }
}

}  // namespace

template <typename S>
void finish_inputs(const BackwardRun<S>& run) {
  if (run.args.d_emb) {
    run.product(run.lines(), run.d.embedding, run.w.input_gates, {run.d_gates(0, 0), run.w.gates()},
                {run.weights.emb, run.w.emb}, data_of<S>(run.args.d_emb), run.d.embedding);
  }
  if (!needs_keys(run)) return;
  gather_key_gradients<S>(
      run.stream(), {run.attended, run.trace.extents.target_time, run.query_of(run.trace, 0),
                     run.scratch.d_scores, run.scratch.d_keys, run.scratch.d_vector, run.limit()});
  if (run.args.d_memory) store_memory_gradient(run);
}

template <typename S>
void finish_weights(const BackwardRun<S>& run) {
  const Weights& gradients = run.args.gradients;
  for (std::size_t l = 0; l < gradients.cells.size(); ++l) {
    add_cell(run, static_cast<std::int64_t>(l), gradients.cells[l]);
  }
  add_attention(run);
  add_output(run);
}

template void finish_inputs(const BackwardRun<double>&);
template void finish_inputs(const BackwardRun<float>&);
template void finish_inputs(const BackwardRun<__nv_bfloat16>&);
template void finish_inputs(const BackwardRun<__half>&);
template void finish_weights(const BackwardRun<double>&);
template void finish_weights(const BackwardRun<float>&);
template void finish_weights(const BackwardRun<__nv_bfloat16>&);
template void finish_weights(const BackwardRun<__half>&);

}  // namespace sluice::kernels::attention_decoder::cuda
