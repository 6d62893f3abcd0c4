#include "kernels/attention_decoder/cuda/persistent/launch.h"
#include "kernels/attention_decoder/cuda/row_kernels.h"
#include "kernels/attention_decoder/cuda/run.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

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

/// values[b, s, :] = memory[s, b, :], zero past the row's length; keys = values * key weights.
template <typename S>
void prepare(const Run<S>& run, const Extents& extents, const S* memory,
             const std::int32_t* lengths, S* values, S* keys) {
  clean_sequence<S>(run.stream(), {extents.source_time, extents.rows, run.d.memory, run.w.memory,
                                   memory, lengths, values, true});
  run.product(extents.rows * extents.source_time, run.w.key, run.w.memory, {values, run.w.memory},
              {run.weights.key, run.w.memory, true}, keys, run.w.key);
}

template <typename S>
Attended<S> attended_of(const Run<S>& run, const Extents& extents) {
  Attended<S> attended;
  attended.rows = extents.rows;
  attended.source_time = extents.source_time;
  attended.key_width = run.w.key;
  attended.value_width = run.w.memory;
  attended.score_vector = run.weights.score_vector;
  return attended;
}

}  // namespace

template <typename S>
persistent::Layer<S> persistent_layer(const ForwardRun<S>& run, std::int64_t l) {
  const Trace<S>& trace = run.trace;
  const PackedLayer<S>& packed = run.weights.layers[static_cast<std::size_t>(l)];
  const std::int64_t rows = run.rows();
  const auto slots = [](std::int64_t each, std::int64_t count) {
    return persistent::Slots{each, static_cast<std::int32_t>(count)};
  };
  return {packed.joint,      packed.bias,
          trace.joint(l, 0), slots(rows * run.w.joint(l), trace.joint_slots),
          trace.c(l, 0),     slots(rows * run.w.hidden, trace.cell_slots),
          trace.saved(l, 0), static_cast<std::int32_t>(run.w.x(l))};
}

/// All steps in one launch. By what context adds to the output at each position, which is
/// multiplied beforehand, attention's sums are the output's.
template <typename S>
void run_steps(const ForwardRun<S>& run, const persistent::Scratch<S>& scratch) {
  const Trace<S>& trace = run.trace;
  const Widths& w = run.w;
  const std::int64_t rows = run.rows(), source_time = trace.extents.source_time;
  run.product(rows * source_time, w.output, w.memory, {trace.values, w.memory},
              {run.weights.output, w.combined(), true}, scratch.projected, w.output);
  const auto narrow = [](std::int64_t x) { return static_cast<std::int32_t>(x); };
  const auto slots = [&](std::int64_t each) {
    return persistent::Slots{each, narrow(trace.step_slots)};
  };
  persistent::Arguments<S> args;
  args.time = narrow(trace.extents.target_time);
  args.source_time = narrow(source_time);
  args.rows = narrow(rows);
  args.units = narrow(run.d.hidden);
  args.hidden = narrow(w.hidden);
  args.memory = narrow(w.memory);
  args.key = narrow(w.key);
  args.output = narrow(run.d.output);
  args.padded_output = narrow(w.output);
  args.target_lengths = run.target_lengths;
  args.source_lengths = run.attended.source_lengths;
  for (std::int64_t l = 0; l < persistent::kLayers; ++l) {
    args.layers[l] = persistent_layer(run, l);
  }
  args.pre = run.scratch.pre;
  args.query_weight = run.weights.query;
  args.output_weight = run.weights.output;
  args.output_bias = run.weights.output_bias;
  args.score_vector = run.weights.score_vector;
  args.keys = trace.keys;
  args.values = trace.values;
  args.projected = scratch.projected;
  args.combined = trace.combined(0);
  args.combineds = slots(rows * w.combined());
  args.query = trace.query(0);
  args.queries = slots(rows * w.key);
  args.alpha = trace.alpha(0);
  args.alphas = slots(rows * source_time);
  args.outputs = run.scratch.outputs;
  args.a = run.a;
  args.alpha_out = run.alpha_out;
  args.dropout = run.dropout_of(*run.dropout, 0);
  args.exchange = scratch.exchange;
  args.counters = scratch.counters;
  persistent::launch(run.stream(), args);
}

template <typename S>
void run_forward(const Context& context, const Descriptor& d, const ForwardArgs& args,
                 const Memory& memory, bool in_one_launch) {
  Carver workspace(memory.workspace), reserve(memory.reserve);
  const Extents extents{args.target_time, args.source_time, args.rows};
  const ForwardScratch<S> scratch = carve_forward<S>(d, extents, workspace);
  ForwardRun<S> run(context, d, memory,
                    carve_trace<S>(d, extents, d.training, true, d.training ? reserve : workspace));
  run.scratch = scratch;
  run.target_lengths = data_of<const std::int32_t>(args.target_lengths);
  run.a = data_of<S>(args.a);
  run.alpha_out = data_of<S>(args.alpha);
  run.dropout = &args;
  run.attended = attended_of(run, extents);
  run.attended.keys = run.trace.keys;
  run.attended.values = run.trace.values;
  run.attended.source_lengths = data_of<const std::int32_t>(args.source_lengths);
  run.attended.target_lengths = run.target_lengths;

  prepare(run, extents, data_of<const S>(args.memory), run.attended.source_lengths,
          run.trace.values, run.trace.keys);
  run.multiply_embedding(data_of<const S>(args.emb));
  run.load_state(data_of<const S>(args.h0), data_of<const Wide<S>>(args.c0),
                 data_of<const S>(args.a0));
  bool queued = false;
  if constexpr (sizeof(S) == 2) {
    if (in_one_launch && extents.target_time > 0 && extents.rows > 0) {
      run_steps(run, persistent::carve_scratch<S>(extents, run.w.output, workspace));
      queued = true;
    }
  }
  for (std::int64_t t = 0; t < extents.target_time && !queued; ++t) run.step(t);
  run.store_state(data_of<S>(args.hn), data_of<Wide<S>>(args.cn));
}

template <typename S>
void run_step(const Context& context, const Descriptor& d, const StepArgs& args,
              const Memory& memory) {
  Carver workspace(memory.workspace);
  const Extents extents{1, args.source_time, args.rows};
  const ForwardScratch<S> scratch = carve_forward<S>(d, extents, workspace);
  ForwardRun<S> run(context, d, memory, carve_trace<S>(d, extents, false, false, workspace));
  run.scratch = scratch;
  run.a = data_of<S>(args.a_next);
  run.alpha_out = data_of<S>(args.alpha);
  run.attended = attended_of(run, extents);
  run.attended.keys = data_of<const S>(args.keys);
  run.attended.values = data_of<const S>(args.values);
  run.attended.source_lengths = data_of<const std::int32_t>(args.source_lengths);
  run.attended.input_of_row = data_of<const std::int32_t>(args.input_of_row);

  run.multiply_embedding(data_of<const S>(args.emb));
  run.load_state(data_of<const S>(args.h), data_of<const Wide<S>>(args.c),
                 data_of<const S>(args.a));
  run.step(0);
  run.store_state(data_of<S>(args.h_next), data_of<Wide<S>>(args.c_next));
}

template <typename S>
void run_prepare(const Context& context, const Descriptor& d, const PrepareArgs& args,
                 const Memory& memory) {
  const Run<S> run(context, d, memory);
  prepare(run, {0, args.source_time, args.inputs}, data_of<const S>(args.memory),
          data_of<const std::int32_t>(args.source_lengths), data_of<S>(args.values),
          data_of<S>(args.keys));
}

template void run_forward<double>(const Context&, const Descriptor&, const ForwardArgs&,
                                  const Memory&, bool);
template void run_forward<float>(const Context&, const Descriptor&, const ForwardArgs&,
                                 const Memory&, bool);
template void run_forward<__nv_bfloat16>(const Context&, const Descriptor&, const ForwardArgs&,
                                         const Memory&, bool);
template void run_forward<__half>(const Context&, const Descriptor&, const ForwardArgs&,
                                  const Memory&, bool);
template void run_step<double>(const Context&, const Descriptor&, const StepArgs&, const Memory&);
template void run_step<float>(const Context&, const Descriptor&, const StepArgs&, const Memory&);
template void run_step<__nv_bfloat16>(const Context&, const Descriptor&, const StepArgs&,
                                      const Memory&);
template void run_step<__half>(const Context&, const Descriptor&, const StepArgs&, const Memory&);
template void run_prepare<double>(const Context&, const Descriptor&, const PrepareArgs&,
                                  const Memory&);
template void run_prepare<float>(const Context&, const Descriptor&, const PrepareArgs&,
                                 const Memory&);
template void run_prepare<__nv_bfloat16>(const Context&, const Descriptor&, const PrepareArgs&,
                                         const Memory&);
template void run_prepare<__half>(const Context&, const Descriptor&, const PrepareArgs&,
                                  const Memory&);

}  // namespace sluice::kernels::attention_decoder::cuda
