#include "kernels/attention_decoder/cuda/backward.h"

#include "kernels/attention_decoder/cuda/row_kernels.h"

namespace sluice::kernels::attention_decoder::cuda {

template <typename S>
BackwardRun<S>::BackwardRun(const Context& on, const Descriptor& descriptor, const Memory& memory,
                            const BackwardArgs& given, const float* weights_factor,
                            const Trace<S>& of_forward, Carver& workspace)
    : Run<S>(on, descriptor, memory), args(given), factor(weights_factor), trace(of_forward) {
  scratch = carve_backward<S>(d, trace.extents, workspace);
  attended.rows = rows();
  attended.source_time = trace.extents.source_time;
  attended.key_width = w.key;
  attended.value_width = w.memory;
  attended.keys = trace.keys;
  attended.values = trace.values;
  attended.score_vector = weights.score_vector;
  attended.source_lengths = data_of<const std::int32_t>(args.forward.source_lengths);
  attended.target_lengths = data_of<const std::int32_t>(args.forward.target_lengths);
}

template <typename S>
void BackwardRun<S>::start() const {
  const std::int64_t states = d.layers * rows();
  copy_rows<S, W>(stream(), {states, d.hidden, data_of<const S>(args.dhn), d.hidden,
                             scratch.d_hidden, w.hidden, w.hidden});
  if (d.cell == CellType::kLstm) {
    copy_rows<W, W>(stream(), {states, d.hidden, data_of<const W>(args.dcn), d.hidden,
                               scratch.d_cell, w.hidden, w.hidden});
  }
}

template <typename S>
void BackwardRun<S>::steps() const {
  stream().fill_zero(scratch.d_joint,
                     static_cast<std::size_t>(rows() * w.joints(d.layers)) * sizeof(W));
  for (std::int64_t t = trace.extents.target_time; t-- > 0;) step(t);
}

template <typename S>
void BackwardRun<S>::step(std::int64_t t) const {
  const std::int64_t at = t * rows() * d.output;
  S* d_output = scratch.d_output + t * rows() * w.output;
  output_backward<S>(stream(), {rows(),
                                d.output,
                                w.output,
                                {attended.target_lengths, t},
                                data_of<const S>(args.forward.a) + at,
                                data_of<const S>(args.da) + at,
                                d_joint(0),
                                w.joint(0),
                                d_output,
                                limit()});
  this->product(rows(), w.combined(), w.output, {d_output, w.output},
                {weights.output, w.combined()}, d_combined(t), w.combined());
  step_attention(t);
  for (std::int64_t l = d.layers; l-- > 0;) step_layer(l, t);
}

/// All that flows into q is in d_combined afterwards.
template <typename S>
void BackwardRun<S>::step_attention(std::int64_t t) const {
  const std::int64_t entries = rows() * trace.extents.source_time;
  W* d_state = d_combined(t) + w.memory;
  S* d_query = offset_or_null(scratch.d_query, t * rows() * w.key);
  attend_backward<S>(
      stream(), {attended, t, this->query_of(trace, t), trace.alpha(t), d_combined(t), w.combined(),
                 scratch.d_scores + t * entries, d_query, d_state, limit()});
  if (!this->is_additive()) return;
  this->product(rows(), w.hidden, w.key, {d_query, w.key}, {weights.query, w.hidden}, d_state,
                w.combined(), true);
}

template <typename S>
void BackwardRun<S>::step_layer(std::int64_t l, std::int64_t t) const {
  const bool top = l + 1 == d.layers;
  const std::int64_t width = w.joint(l);
  CellBackwardArgs<S> cell;
  cell.rows = rows();
  cell.units = d.hidden;
  cell.hidden = w.hidden;
  cell.active = {attended.target_lengths, t};
  cell.last = t + 1 == trace.extents.target_time;
  cell.saved = trace.saved(l, t);
  cell.h_prev = trace.h(l, t);
  cell.h_stride = width;
  cell.c_prev = trace.c(l, t);
  cell.c = trace.c(l, t + 1);
  cell.carried = d_joint(l) + w.x(l);
  cell.carried_stride = width;
  cell.above = top ? d_combined(t) + w.memory : d_joint(l + 1);
  cell.above_stride = top ? w.combined() : w.joint(l + 1);
  cell.dropout = this->dropout_of(args.forward, l);
  cell.d_hidden = scratch.d_hidden + l * rows() * w.hidden;
  cell.d_cell = offset_or_null(scratch.d_cell, l * rows() * w.hidden);
  cell.d_gates = d_gates(l, t);
  cell.limit = limit();
  cell.d_reset = scratch.d_reset;
  run_cell_backward(stream(), d.cell, cell);
  const PackedLayer<S>& layer = weights.layers[static_cast<std::size_t>(l)];
  if (resets_before(d)) {
    this->product(rows(), w.hidden, w.hidden, {cell.d_gates + 2 * w.hidden, w.gates()},
                  {layer.reset, w.hidden}, scratch.d_reset, w.hidden);
    reset_state_backward(stream(), cell);
  }
  this->product(rows(), width, w.gates(), {cell.d_gates, w.gates()}, {layer.joint, width},
                d_joint(l), width);
}

template <typename S>
void BackwardRun<S>::finish() const {
  const std::int64_t size = rows() * d.hidden;
  for (std::int64_t l = 0; l < d.layers && args.dh0; ++l) {
    add_rows<S>(stream(), {rows(), d.hidden, scratch.d_hidden + l * rows() * w.hidden, w.hidden,
                           d_joint(l) + w.x(l), w.joint(l), data_of<S>(args.dh0) + l * size});
  }
  if (args.dc0) {
    copy_rows<W, W>(stream(), {d.layers * rows(), d.hidden, scratch.d_cell, w.hidden,
                               data_of<W>(args.dc0), d.hidden, d.hidden});
  }
  if (args.da0) {
    copy_rows<W, S>(stream(), {rows(), d.output, d_joint(0), w.joint(0), data_of<S>(args.da0),
                               d.output, d.output});
  }
}

template <typename S>
void run_backward(const Context& context, const Descriptor& d, const BackwardArgs& args,
                  const Memory& memory, const float* factor, bool in_one_launch) {
  Carver reserve(memory.reserve), workspace(memory.workspace);
  const Extents extents{args.forward.target_time, args.forward.source_time, args.forward.rows};
  const BackwardRun<S> run(context, d, memory, args, factor,
                           carve_trace<S>(d, extents, true, true, reserve), workspace);
  run.start();
  const bool at_once = in_one_launch && extents.target_time > 0 && extents.rows > 0;
  if (!at_once) run.steps();
  if constexpr (sizeof(S) == 2) {
    if (at_once) run_steps(run, workspace);
  }
  run.finish();
  finish_inputs(run);
  finish_weights(run);
}

template void run_backward<double>(const Context&, const Descriptor&, const BackwardArgs&,
                                   const Memory&, const float*, bool);
template void run_backward<float>(const Context&, const Descriptor&, const BackwardArgs&,
                                  const Memory&, const float*, bool);
template void run_backward<__nv_bfloat16>(const Context&, const Descriptor&, const BackwardArgs&,
                                          const Memory&, const float*, bool);
template void run_backward<__half>(const Context&, const Descriptor&, const BackwardArgs&,
                                   const Memory&, const float*, bool);

}  // namespace sluice::kernels::attention_decoder::cuda
