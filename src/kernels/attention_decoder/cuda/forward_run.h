#pragma once

#include "kernels/attention_decoder/cuda/row_kernels.h"
#include "kernels/attention_decoder/cuda/run.h"

namespace sluice::kernels::attention_decoder::cuda {

/// All that the steps of one forward run, or a single step, read and write.
template <typename S>
struct ForwardRun : Run<S> {
  using W = Wide<S>;
  using Run<S>::d;
  using Run<S>::w;
  using Run<S>::weights;
  using Run<S>::stream;

  Trace<S> trace;
  ForwardScratch<S> scratch;
  Attended<S> attended;
  const std::int32_t* target_lengths = nullptr;
  S* a = nullptr;          ///< [T, B, A]
  S* alpha_out = nullptr;  ///< [T, B, S]; optional
  const ForwardArgs* dropout = nullptr;

  ForwardRun(const Context& on, const Descriptor& descriptor, const Memory& memory,
             const Trace<S>& given)
      : Run<S>(on, descriptor, memory), trace(given) {}

  std::int64_t rows() const { return trace.rows(); }

  /// The products of emb for all steps.
  void multiply_embedding(const S* emb) const {
    const std::int64_t steps = trace.extents.target_time * rows();
    if (scratch.emb != nullptr) {
      clean_sequence<S>(stream(), {trace.extents.target_time, rows(), d.embedding, w.emb, emb,
                                   target_lengths, scratch.emb});
      emb = scratch.emb;
    }
    this->product(steps, w.input_gates, w.emb, {emb, w.emb}, {weights.emb, w.emb, true},
                  scratch.pre, w.input_gates);
  }

  void load_state(const S* h, const W* c, const S* fed) const {
    const std::int64_t size = rows() * d.hidden;
    for (std::int64_t l = 0; l < d.layers; ++l) {
      copy_rows<S, S>(stream(), {rows(), d.hidden, offset_or_null(h, l * size), d.hidden,
                                 trace.h(l, 0), w.joint(l), w.hidden});
      if (d.cell != CellType::kLstm) continue;
      copy_rows<W, W>(stream(), {rows(), d.hidden, offset_or_null(c, l * size), d.hidden,
                                 trace.c(l, 0), w.hidden, w.hidden});
    }
    copy_rows<S, S>(stream(),
                    {rows(), d.output, fed, d.output, trace.joint(0, 0), w.joint(0), w.output});
  }

  /// Final states; null for those not wanted.
  void store_state(S* h, W* c) const {
    const std::int64_t time = trace.extents.target_time, size = rows() * d.hidden;
    for (std::int64_t l = 0; l < d.layers; ++l) {
      if (h != nullptr) {
        copy_rows<S, S>(stream(), {rows(), d.hidden, trace.h(l, time), w.joint(l), h + l * size,
                                   d.hidden, d.hidden});
      }
      if (c != nullptr) {
        copy_rows<W, W>(stream(), {rows(), d.hidden, trace.c(l, time), w.hidden, c + l * size,
                                   d.hidden, d.hidden});
      }
    }
  }

  /// Step t; scratch.pre has the products of emb.
  void step(std::int64_t t) const {
    for (std::int64_t l = 0; l < d.layers; ++l) step_layer(l, t);
    if (this->is_additive()) {
      this->product(rows(), w.key, w.hidden, {trace.top(t), w.combined()},
                    {weights.query, w.hidden, true}, trace.query(t), w.key);
    }
    const std::int64_t source_time = trace.extents.source_time;
    attend<S>(stream(), {attended, t, this->query_of(trace, t), trace.alpha(t),
                         offset_or_null(alpha_out, t * rows() * source_time), trace.combined(t),
                         w.combined()});
    this->product(rows(), w.output, w.combined(), {trace.combined(t), w.combined()},
                  {weights.output, w.combined(), true}, scratch.outputs, w.output);
    make_output<S>(stream(), {rows(),
                              d.output,
                              w.output,
                              {target_lengths, t},
                              scratch.outputs,
                              weights.output_bias,
                              a + t * rows() * d.output,
                              trace.joint(0, t + 1),
                              w.joint(0)});
  }

 private:
  void step_layer(std::int64_t l, std::int64_t t) const {
    const PackedLayer<S>& layer = weights.layers[static_cast<std::size_t>(l)];
    const std::int64_t width = w.joint(l);
    this->product(rows(), w.gates(), width, {trace.joint(l, t), width}, {layer.joint, width, true},
                  scratch.sums, w.gates());
    const bool top = l + 1 == d.layers;
    CellArgs<S> cell;
    cell.rows = rows();
    cell.units = d.hidden;
    cell.hidden = w.hidden;
    cell.active = {target_lengths, t};
    if (l == 0) cell.pre = scratch.pre + t * rows() * w.input_gates;
    cell.pre_stride = w.input_gates;
    cell.sums = scratch.sums;
    cell.bias = layer.bias;
    cell.h_prev = trace.h(l, t);
    cell.h = trace.h(l, t + 1);
    cell.h_stride = width;
    cell.c_prev = trace.c(l, t);
    cell.c = trace.c(l, t + 1);
    cell.saved = trace.saved(l, t);
    cell.y = top ? trace.top(t) : trace.joint(l + 1, t);
    cell.y_stride = top ? w.combined() : w.joint(l + 1);
    cell.reset = trace.reset(l, t);
    if (dropout != nullptr) cell.dropout = this->dropout_of(*dropout, l);
    if (resets_before(d)) {
      reset_state(stream(), cell);
      this->product(rows(), w.hidden, w.hidden, {cell.reset, w.hidden},
                    {layer.reset, w.hidden, true}, scratch.sums + 2 * w.hidden, w.gates(), true);
    }
    run_cell(stream(), d.cell, cell);
  }
};

/// All steps in one launch, with what it needs from the workspace's carver. Of 16-bit storage; a
/// run of other types never asks for it.
template <typename S>
void run_steps(const ForwardRun<S>& run, Carver& workspace);

}  // namespace sluice::kernels::attention_decoder::cuda
