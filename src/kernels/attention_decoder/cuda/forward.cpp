#include "kernels/attention_decoder/cuda/forward_run.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

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
  const bool at_once = in_one_launch && extents.target_time > 0 && extents.rows > 0;
  if constexpr (sizeof(S) == 2) {
    if (at_once) run_steps(run, workspace);
  }
  for (std::int64_t t = 0; t < extents.target_time && !at_once; ++t) run.step(t);
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
