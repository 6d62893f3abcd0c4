#include "kernels/attention_decoder/cuda/backward.h"
#include "kernels/attention_decoder/cuda/persistent/launch.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

template <typename S>
persistent::LayerBackward<S> persistent_layer(const BackwardRun<S>& run, std::int64_t l) {
  const std::int64_t states = l * run.rows() * run.w.hidden;
  return {run.weights.layers[static_cast<std::size_t>(l)].joint,
          run.trace.c(l, 0),
          run.trace.saved(l, 0),
          run.d_gates(l, 0),
          run.scratch.d_hidden + states,
          run.scratch.d_cell + states,
          run.d_joint(l),
          static_cast<std::int32_t>(run.w.x(l))};
}

}  // namespace

template <typename S>
void run_steps(const BackwardRun<S>& run, Carver& workspace) {
  const Trace<S>& trace = run.trace;
  const Widths& w = run.w;
  const std::int64_t rows = run.rows(), source_time = trace.extents.source_time;
  const persistent::BackwardLaunchScratch<S> scratch =
      persistent::carve_backward_scratch<S>(trace.extents, w.output, workspace);
  // Gradients of alpha are products of these with the output's: those of the context are wanted for
  // the memory alone, behind the steps.
  run.product(rows * source_time, w.output, w.memory, {trace.values, w.memory},
              {run.weights.output, w.combined(), true}, scratch.projected, w.output);
  const auto narrow = [](std::int64_t x) { return static_cast<std::int32_t>(x); };
  persistent::BackwardArguments<S> args;
  args.time = narrow(trace.extents.target_time);
  args.source_time = narrow(source_time);
  args.rows = narrow(rows);
  args.units = narrow(run.d.hidden);
  args.hidden = narrow(w.hidden);
  args.memory = narrow(w.memory);
  args.key = narrow(w.key);
  args.output = narrow(run.d.output);
  args.padded_output = narrow(w.output);
  args.target_lengths = run.attended.target_lengths;
  args.source_lengths = run.attended.source_lengths;
  for (std::int64_t l = 0; l < persistent::kLayers; ++l) {
    args.layers[l] = persistent_layer(run, l);
  }
  args.query_weight = run.weights.query;
  args.output_weight = run.weights.output;
  args.score_vector = run.weights.score_vector;
  args.keys = trace.keys;
  args.projected = scratch.projected;
  args.query = trace.query(0);
  args.alpha = trace.alpha(0);
  args.a = data_of<const S>(run.args.forward.a);
  args.da = data_of<const S>(run.args.da);
  const auto in_fours = [](const S* data) {
    return reinterpret_cast<std::uintptr_t>(data) % (4 * sizeof(S)) == 0;
  };
  args.a_in_fours = run.d.output == w.output && in_fours(args.a) && in_fours(args.da);
  args.d_output = run.scratch.d_output;
  args.d_query = run.scratch.d_query;
  args.d_scores = run.scratch.d_scores;
  args.dropout = run.dropout_of(run.args.forward, 0);
  args.limit = run.limit();
  args.exchange = scratch.exchange;
  args.counters = scratch.counters;
  args.parts = scratch.parts;
  persistent::launch(run.stream(), args);
  if (!run.args.d_memory) return;
  run.product(run.lines(), w.memory, w.output, {args.d_output, w.output},
              {run.weights.output, w.combined()}, run.d_combined(0), w.combined());
}

template void run_steps(const BackwardRun<__nv_bfloat16>&, Carver&);
template void run_steps(const BackwardRun<__half>&, Carver&);

}  // namespace sluice::kernels::attention_decoder::cuda
