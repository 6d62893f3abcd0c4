#include "kernels/recurrent/cuda/cluster_backward/launch.h"
#include "kernels/recurrent/cuda/cluster_wgmma/launch.h"
#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/persistent/launch.h"
#include "kernels/recurrent/cuda/persistent_extras.h"
#include "kernels/recurrent/cuda/persistent_grid/launch.h"
#include "kernels/recurrent/cuda/persistent_norm.h"
#include "kernels/recurrent/cuda/scaled_gradients.h"
#include "kernels/recurrent/cuda/streamed/launch.h"
#include "kernels/recurrent/cuda/wide/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// What one layer of a run has of a tensor of all layers and directions: entries of `size` elements
/// each.
template <typename T>
T* part_of(const Run& run, const Tensor& tensor, std::int64_t layer, std::int64_t size) {
  const std::int64_t first = layer * run.engine.sizes.directions * size;
  return tensor ? tensor.data_as<T>() + first : nullptr;
}
void* stored_part_of(const Run& run, const Tensor& tensor, std::int64_t layer, std::int64_t size) {
  return run.element(tensor, layer * run.engine.sizes.directions * size);
}

/// Times [begin, end).
persistent::Extent extent_of(const Run& run, std::int64_t begin, std::int64_t end) {
  return {static_cast<std::int32_t>(run.args.time),
          static_cast<std::int32_t>(run.args.rows),
          static_cast<std::int32_t>(run.engine.sizes.hidden),
          static_cast<std::int32_t>(run.engine.sizes.directions),
          static_cast<std::int32_t>(begin),
          static_cast<std::int32_t>(end),
          run.lengths()};
}

/// The state goes from one piece of the only direction to the next by the states that backward
/// reads, or in inference by those of the workspace.
void carry_states(const Run& run, std::int64_t layer, const Piece& piece,
                  persistent::LayerForward& args) {
  const Engine& engine = run.engine;
  const auto l = static_cast<std::size_t>(layer);
  const bool first = piece.begin == 0, last = piece.end == run.args.time;
  if (engine.descriptor.training) {
    const std::int64_t before = piece.begin * run.args.rows * engine.sizes.hidden;
    if (!first) {
      args.h0 = run.element(static_cast<const std::byte*>(args.h_states[0]), before);
      args.c0 = args.c_states[0] + before;
    }
    if (!last) args.hn = args.cn = nullptr;
    return;
  }
  const StateLayout& state = engine.workspace.forward.states[l];
  const auto h = run.workspace<std::byte>(state.h);
  const auto c = run.workspace<float>(state.c);
  if (!first) args.h0 = h, args.c0 = c;
  if (!last) args.hn = h, args.cn = c;
}

/// Backward of many rows, whose launch sums up the gradients of biases as well.
void launch_in_clusters(const Run& run, std::int64_t layer, const LaunchQueue& queue,
                        const wide::LayerBackward& args) {
  const Engine& engine = run.engine;
  float* sums[2]{};
  for (std::int64_t d = 0; d < engine.sizes.directions; ++d) {
    const auto i = static_cast<std::size_t>(layer * engine.sizes.directions + d);
    sums[d] = run.workspace<float>(engine.workspace.backward.gate_sums[i]);
  }
  persistent::LayerBackward plain = args;
  if (args.d_scaled) plain.d_input = args.d_scaled;
  cluster_backward::launch(queue, run.kind(), plain, args.row_scales, sums);
}

/// Forward of many rows.
void launch_wide(const Run& run, const LaunchQueue& queue, const persistent::LayerForward& args,
                 const LaunchPlace& place) {
  const Engine& engine = run.engine;
  std::byte* exchange = run.workspace<std::byte>(engine.workspace.forward.exchange) +
                        place.number * wide::exchange_bytes(engine.descriptor);
  wide::launch(queue, run.kind(), args, place.abreast, !engine.rung.persistent_backward(),
               exchange);
}

/// Queues the launch. `place` is that of a launch forward.
template <typename Args>
void launch(const Run& run, std::int64_t layer, const LaunchQueue& queue, const Args& args,
            std::size_t exchange, const LaunchPlace& place = {}) {
  const Engine& engine = run.engine;
  constexpr bool kForward = std::is_base_of_v<persistent::LayerForward, Args>;
  const Residence residence = kForward ? engine.rung.forward : engine.rung.backward;
  if (residence == Residence::kClusterWgmma) {
    if constexpr (kForward) {
      cluster_wgmma::launch(queue, run.kind(), args);
    } else {
      launch_in_clusters(run, layer, queue, args);
    }
  } else if (residence == Residence::kWide) {
    if constexpr (kForward) {
      launch_wide(run, queue, args, place);
    } else {
      wide::launch(queue, run.kind(), args, false, run.workspace<void>(exchange));
    }
  } else if (residence == Residence::kGrid) {
    persistent_grid::launch(queue, engine.descriptor, args, run.workspace<void>(exchange));
  } else if (residence == Residence::kStreamed) {
    if constexpr (kForward) {
      streamed::launch(queue, run.kind(), args, !engine.rung.persistent_backward(),
                       run.workspace<void>(exchange));
    } else {
      streamed::launch(queue, run.kind(), args, run.workspace<void>(exchange));
    }
  } else if (engine.sizes.norms) {
    persistent::launch(queue, run.kind(), engine.descriptor, run.abreast(),
                       with_norm(run, layer, args));
  } else if (engine.sizes.gates == 1) {
    persistent::launch(queue, run.kind(), engine.descriptor, run.abreast(), of_rnn(run, args));
  } else if (engine.descriptor.has_extras()) {
    persistent::launch(queue, run.kind(), engine.descriptor, run.abreast(),
                       with_extras(run, layer, args));
  } else {
    // A cluster takes nothing of what wide launches add.
    using Plain = std::conditional_t<kForward, persistent::LayerForward, persistent::LayerBackward>;
    persistent::launch<Plain>(queue, run.kind(), engine.descriptor, run.abreast(), args);
  }
}

}  // namespace

void prepare_launches(const Run& run, std::int64_t lane) {
  const Engine& engine = run.engine;
  if (engine.rung.forward != Residence::kWide) return;
  wide::clear_exchanges(run.engine.lanes[lane], engine.descriptor, run.args.rows,
                        forward_exchanges(engine.descriptor, engine.rung),
                        run.workspace<void>(engine.workspace.forward.exchange));
}

void run_persistent_layer(const Run& run, std::int64_t layer, const Piece& piece,
                          const LaunchPlace& place) {
  Engine& engine = run.engine;
  const Sizes& sizes = engine.sizes;
  const auto l = static_cast<std::size_t>(layer);
  const PackedLayer& packed = engine.packed.layers[l];
  const std::int64_t state = run.args.rows * sizes.hidden;
  persistent::LayerForward args{};
  args.extent = extent_of(run, piece.begin, piece.end);
  args.input = run.input_products(layer, piece);
  args.bias = run.packed<const float>(packed.bias);
  args.h0 = stored_part_of(run, run.args.h0, layer, state);
  args.c0 = part_of<const float>(run, run.args.c0, layer, state);
  args.y = run.output_of(layer);
  args.hn = stored_part_of(run, run.args.hn, layer, state);
  args.cn = part_of<float>(run, run.args.cn, layer, state);
  args.c_sequence = part_of<float>(run, run.args.c_sequence, layer, run.args.time * state);
  for (std::size_t d = 0; d < packed.directions.size(); ++d) {
    const PackedDirection& direction = packed.directions[d];
    args.weights[d] = run.packed<const void>(direction.weight_hh.plain);
    args.largest[d] = run.packed<const float>(direction.weight_hh.largest);
    args.bias_hn[d] = sizes.hidden_bias ? run.packed<const float>(direction.bias_hn) : nullptr;
    if (!engine.descriptor.training) continue;
    const StateLayout& kept = engine.reserve.states[l * packed.directions.size() + d];
    args.h_states[d] = run.reserve<void>(kept.h);
    args.c_states[d] = run.reserve<float>(kept.c);
    args.saved[d] = run.reserve<void>(kept.saved);
  }
  carry_states(run, layer, piece, args);
  if (sizes.norms) normalise_inputs(run, layer, piece);
  const LaunchQueue queue{engine.lanes[place.lane], place.begun};
  launch(run, layer, queue, args, engine.workspace.forward.exchange, place);
}

void run_persistent_layer(const Run& run, const BackwardArgs& backward, std::int64_t layer,
                          const Piece& turns, cudaEvent_t begun, int part) {
  Engine& engine = run.engine;
  const Sizes& sizes = engine.sizes;
  const auto l = static_cast<std::size_t>(layer);
  const PackedLayer& packed = engine.packed.layers[l];
  const BackwardLayout& layout = engine.workspace.backward;
  const std::int64_t state = run.args.rows * sizes.hidden;
  wide::LayerBackward args{};
  args.extent = extent_of(run, run.args.time - turns.end, run.args.time - turns.begin);
  args.dy = layer + 1 == sizes.layers ? backward.dy.data() : run.at<const void>(layout.dy[l]);
  args.dhn = stored_part_of(run, backward.dhn, layer, state);
  args.dcn = part_of<const float>(run, backward.dcn, layer, state);
  args.dh0 = stored_part_of(run, backward.dh0, layer, state);
  args.dc0 = part_of<float>(run, backward.dc0, layer, state);
  if (layout.row_scales.empty()) {
    args.d_input = run.at<void>(layout.d_input[l]);
  } else {
    args.d_scaled = run.at<void>(layout.d_input[l]);
    args.row_scales = run.workspace<float>(layout.row_scales[l]);
  }
  for (std::size_t d = 0; d < packed.directions.size(); ++d) {
    const std::size_t i = l * packed.directions.size() + d;
    const StateLayout& kept = engine.reserve.states[i];
    args.weights[d] = run.packed<const void>(packed.directions[d].weight_hh.transposed);
    args.largest[d] = run.packed<const float>(packed.directions[d].weight_hh.largest);
    args.h_states[d] = run.reserve<const void>(kept.h);
    args.c_states[d] = run.reserve<const float>(kept.c);
    args.saved[d] = run.reserve<const void>(kept.saved);
    args.d_recurrent[d] = run.workspace<void>(layout.d_recurrent[i]);
  }
  // From one piece of the only direction to the next.
  float* dh = run.workspace<float>(layout.dh[l * packed.directions.size()]);
  float* dc = run.workspace<float>(layout.dc[l * packed.directions.size()]);
  if (turns.begin > 0) {
    args.dhn = nullptr;
    args.dh_after = dh;
    args.dcn = dc;
  }
  if (turns.end < run.args.time) {
    args.dh0 = nullptr;
    args.dh_before = dh;
    args.dc0 = dc;
  }
  launch(run, layer, {engine.lanes[run.lane_of(layer, 0)], begun, part}, args, layout.exchange);
  if (sizes.norms) normalise_input_gradients(run, layer, turns);
}

std::int64_t launch_rows(const Run& run) {
  if (run.engine.rung.backward != Residence::kWide) return run.args.rows;
  return wide::backward_launch_rows(run.engine.descriptor, run.args.rows);
}

bool can_await_turns(const Run& run) {
  const Descriptor& descriptor = run.engine.descriptor;
  // Of several launches the first tells nothing of the others. Rows that end early have their last
  // steps cleared when a launch ends, and a direction has the other's last turns first.
  if (run.engine.rung.backward != Residence::kWide || run.lengths() || descriptor.directions > 1) {
    return false;
  }
  if (launch_rows(run) < run.args.rows) return false;
  constexpr std::int64_t kFewestTurns = 4;
  const std::int64_t all = runtime::cuda::gpu_of(run.context.stream()).processors;
  const std::int64_t free = all - wide::backward_processors(descriptor, run.args.rows);
  return run.args.time >= kFewestTurns && free >= all / 4;
}

void await_turns(const Run& run, std::int64_t lane, std::int64_t turns) {
  const Engine& engine = run.engine;
  wide::await_turns(run.engine.lanes[lane], engine.descriptor, run.args.rows, turns,
                    run.workspace<const void>(engine.workspace.backward.exchange));
}

}  // namespace sluice::kernels::recurrent::cuda
