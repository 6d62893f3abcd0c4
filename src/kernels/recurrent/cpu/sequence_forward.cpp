#include <omp.h>

#include "kernels/recurrent/cpu/direction_forward.h"
#include "runtime/span.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

template <typename T>
T* output_of(const Sequence<T>& sequence, const ForwardArgs& args, const Memory& memory,
             std::int64_t layer) {
  if (layer + 1 == sequence.descriptor.layers) return args.y.data_as<T>();
  if (sequence.descriptor.training) {
    return at<T>(memory.reserve, sequence.reserve.outputs[static_cast<std::size_t>(layer)]);
  }
  const auto& outputs = sequence.workspace.forward.outputs;
  return at<T>(memory.workspace, outputs[static_cast<std::size_t>(layer % 2)]);
}

template <typename T>
void drop_output(const Sequence<T>& sequence, const ForwardArgs& args, std::int64_t layer, T* y,
                 std::int64_t steps) {
  const std::int64_t width = sequence.descriptor.input_of(layer + 1);
  const runtime::DropoutKey key = dropout_of(args, layer);
#pragma omp for schedule(static)
  for (std::int64_t i = 0; i < steps * args.rows; ++i) {
    apply_dropout(y + i * width, width, key, sequence.descriptor.dropout,
                  row_id_of(args, i % args.rows), static_cast<std::uint32_t>(i / args.rows));
  }
}

/// Zeros what lies past the longest row; the steps see to the rest.
template <typename T>
void clear_tails(const Sequence<T>& sequence, const ForwardArgs& args, std::int64_t steps) {
  const Sizes& sizes = sequence.sizes;
  const std::int64_t step_size = args.rows * sequence.descriptor.y_width();
  std::fill(args.y.data_as<T>() + steps * step_size, args.y.data_as<T>() + args.time * step_size,
            T(0));
  if (!args.c_sequence) return;
  const std::int64_t cells = args.rows * sizes.hidden;
  for (std::int64_t i = 0; i < sequence.descriptor.layers * sizes.directions; ++i) {
    auto* layer = args.c_sequence.data_as<Sum<T>>() + i * args.time * cells;
    std::fill(layer + steps * cells, layer + args.time * cells, Sum<T>(0));
  }
}

/// What the calling thread of a team does, which is one alone outside of a parallel region.
template <typename T>
void run_layers(const Sequence<T>& sequence, const ForwardArgs& args, const Memory& memory,
                runtime::Profiler* profiler, std::int64_t steps) {
  const Descriptor& descriptor = sequence.descriptor;
  const T* x = args.x.data_as<const T>();
  for (std::int64_t layer = 0; layer < descriptor.layers; ++layer) {
    const runtime::LayerSpan span(omp_get_thread_num() == 0 ? profiler : nullptr, layer);
    const Sizes& sizes = sequence.sizes_of(layer);
    const Share share = share_of(sizes.directions, args.rows, sizes.panels, sizes.out_panels,
                                 sequence.own_rows, omp_get_num_threads(), omp_get_thread_num());
    T* y = output_of(sequence, args, memory, layer);
    for (std::int64_t d = share.directions.begin; d < share.directions.end; ++d) {
      if (share.idle()) break;
      DirectionForward<T>(sequence, args, memory, layer, d, {steps, d == 1}, x, y, share).run();
    }
#pragma omp barrier
    if (descriptor.training && descriptor.dropout > 0 && layer + 1 < descriptor.layers) {
      drop_output(sequence, args, layer, y, steps);
    }
    x = y;
  }
}

}  // namespace

template <typename T>
void run_forward(const Sequence<T>& sequence, const ForwardArgs& args, const Memory& memory,
                 runtime::Profiler* profiler) {
  const std::int64_t steps = steps_of(args);
  const auto threads = static_cast<int>(loop_threads(sequence, args.rows, sequence.threads));
  if (threads == 1 && omp_in_parallel() == 0) {
    // A team, even of one, takes memory and calls the system at its barriers: a microsecond, of the
    // few that a small step has.
    run_layers(sequence, args, memory, profiler, steps);
  } else {
#pragma omp parallel num_threads(threads)
    run_layers(sequence, args, memory, profiler, steps);
  }
  clear_tails(sequence, args, steps);
}

template void run_forward(const Sequence<double>&, const ForwardArgs&, const Memory&,
                          runtime::Profiler*);
template void run_forward(const Sequence<float>&, const ForwardArgs&, const Memory&,
                          runtime::Profiler*);
template void run_forward(const Sequence<base::BFloat16>&, const ForwardArgs&, const Memory&,
                          runtime::Profiler*);

}  // namespace sluice::kernels::recurrent::cpu
