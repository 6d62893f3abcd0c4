#include "kernels/recurrent/cuda/persistent_norm.h"

#include "kernels/recurrent/cuda/persistent/norm_kernels.h"

namespace sluice::kernels::recurrent::cuda {

void bind_norm(const Run& run, std::int64_t layer, persistent::LayerForwardWithNorm& args) {
  const Engine& engine = run.engine;
  const PackedLayer& packed = engine.packed.layers[static_cast<std::size_t>(layer)];
  for (std::size_t d = 0; d < packed.directions.size(); ++d) {
    args.gain_hh[d] = run.packed<const float>(packed.directions[d].gain_hh);
    args.gain_c[d] = run.packed<const float>(packed.directions[d].gain_c);
    args.shift_c[d] = run.packed<const float>(packed.directions[d].shift_c);
    args.c_fresh[d] = nullptr;  // what is normalised is kept
    if (!engine.descriptor.training) continue;
    const StateLayout& kept =
        engine.reserve.states[static_cast<std::size_t>(layer) * packed.directions.size() + d];
    args.norm_hh[d] = run.reserve<void>(kept.norm_hh);
    args.norm_c[d] = run.reserve<void>(kept.norm_c);
    args.inverses[d] = run.reserve<float>(kept.inverses);
  }
}

void bind_norm(const Run& run, std::int64_t layer, persistent::LayerBackwardWithNorm& args) {
  const Engine& engine = run.engine;
  const PackedLayer& packed = engine.packed.layers[static_cast<std::size_t>(layer)];
  const BackwardLayout& layout = engine.workspace.backward;
  for (std::size_t d = 0; d < packed.directions.size(); ++d) {
    const std::size_t i = static_cast<std::size_t>(layer) * packed.directions.size() + d;
    const StateLayout& kept = engine.reserve.states[i];
    args.gain_hh[d] = run.packed<const float>(packed.directions[d].gain_hh);
    args.gain_c[d] = run.packed<const float>(packed.directions[d].gain_c);
    args.shift_c[d] = run.packed<const float>(packed.directions[d].shift_c);
    args.c_fresh[d] = nullptr;
    args.norm_hh[d] = run.reserve<const void>(kept.norm_hh);
    args.norm_c[d] = run.reserve<const void>(kept.norm_c);
    args.inverses[d] = run.reserve<const float>(kept.inverses);
    args.d_sums[d] = run.workspace<void>(layout.d_sums[i]);
    args.d_norm_c[d] = run.workspace<void>(layout.d_norm_c[i]);
  }
}

void normalise_inputs(const Run& run, std::int64_t layer, const Piece& piece) {
  const Engine& engine = run.engine;
  const PackedLayer& packed = engine.packed.layers[static_cast<std::size_t>(layer)];
  persistent::NormaliseInputs args{};
  args.places = piece.size() * run.args.rows;
  args.first = piece.begin * run.args.rows;
  args.hidden = static_cast<std::int32_t>(engine.sizes.hidden);
  args.directions = static_cast<std::int32_t>(engine.sizes.directions);
  args.input = run.input_products(layer, piece);
  for (std::size_t d = 0; d < packed.directions.size(); ++d) {
    args.gain_ih[d] = run.packed<const float>(packed.directions[d].gain_ih);
    if (!engine.descriptor.training) continue;
    const StateLayout& kept =
        engine.reserve.states[static_cast<std::size_t>(layer) * packed.directions.size() + d];
    args.norm_ih[d] = run.reserve<void>(kept.norm_ih);
    args.inverses[d] = run.reserve<float>(kept.inverses);
  }
  persistent::normalise_inputs(run.engine.lanes[run.lane_of(layer, 0)], engine.descriptor.dtype,
                               args);
}

void normalise_input_gradients(const Run& run, std::int64_t layer, const Piece& turns) {
  const Engine& engine = run.engine;
  const PackedLayer& packed = engine.packed.layers[static_cast<std::size_t>(layer)];
  const BackwardLayout& layout = engine.workspace.backward;
  persistent::NormaliseInputGradients args{};
  args.places = turns.size() * run.args.rows;
  args.first = (run.args.time - turns.end) * run.args.rows;
  args.hidden = static_cast<std::int32_t>(engine.sizes.hidden);
  args.directions = static_cast<std::int32_t>(engine.sizes.directions);
  args.d_input = run.at<void>(layout.d_input[static_cast<std::size_t>(layer)]);
  for (std::size_t d = 0; d < packed.directions.size(); ++d) {
    const std::size_t i = static_cast<std::size_t>(layer) * packed.directions.size() + d;
    args.gain_ih[d] = run.packed<const float>(packed.directions[d].gain_ih);
    args.norm_ih[d] = run.reserve<const void>(engine.reserve.states[i].norm_ih);
    args.inverses[d] = run.reserve<const float>(engine.reserve.states[i].inverses);
    args.d_sums[d] = run.workspace<const void>(layout.d_sums[i]);
  }
  persistent::normalise_input_gradients(run.engine.lanes[run.lane_of(layer, 0)],
                                        engine.descriptor.dtype, args);
}

}  // namespace sluice::kernels::recurrent::cuda
