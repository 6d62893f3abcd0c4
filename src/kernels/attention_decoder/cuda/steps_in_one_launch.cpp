#include "kernels/attention_decoder/cuda/forward_run.h"
#include "kernels/attention_decoder/cuda/persistent/launch.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

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

}  // namespace

template <typename S>
void run_steps(const ForwardRun<S>& run, Carver& workspace) {
  const persistent::Scratch<S> scratch =
      persistent::carve_scratch<S>(run.trace.extents, run.w.output, workspace);
  const Trace<S>& trace = run.trace;
  const Widths& w = run.w;
  const std::int64_t rows = run.rows(), source_time = trace.extents.source_time;
  // What each position's context would add to the output: by these, attention's sums are the
  // output's.
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
  args.a = run.a;
  args.a_in_fours = run.d.output == w.output && reinterpret_cast<std::uintptr_t>(run.a) % 8 == 0;
  args.alpha_out = run.alpha_out;
  args.dropout = run.dropout_of(*run.dropout, 0);
  args.exchange = scratch.exchange;
  args.counters = scratch.counters;
  args.parts = scratch.parts;
  persistent::launch(run.stream(), args);
}

template void run_steps(const ForwardRun<__nv_bfloat16>&, Carver&);
template void run_steps(const ForwardRun<__half>&, Carver&);

}  // namespace sluice::kernels::attention_decoder::cuda
