#include "kernels/recurrent/cuda/persistent_extras.h"

#include "kernels/recurrent/cuda/persistent_norm.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

persistent::LayerRules rules_of(const Run& run, std::int64_t layer) {
  const Descriptor& descriptor = run.engine.descriptor;
  persistent::LayerRules rules{};
  rules.resets = run.args.resets.data_as<const std::int32_t>();
  rules.training = descriptor.training;
  rules.source = run.args.dropout.shifted(static_cast<std::uint32_t>(layer));
  rules.row_ids = run.row_ids();
  rules.zoneout_h = Rate(descriptor.zoneout_h);
  rules.zoneout_c = Rate(descriptor.zoneout_c);
  if (descriptor.drops_recurrent()) rules.recurrent_dropout = Rate(descriptor.recurrent_dropout);
  return rules;
}

const float* peepholes_of(const Run& run, const PackedDirection& direction) {
  return run.engine.descriptor.peepholes ? run.packed<const float>(direction.peepholes) : nullptr;
}

}  // namespace

persistent::LayerForwardWithExtras with_extras(const Run& run, std::int64_t layer,
                                               const persistent::LayerForward& plain) {
  const Engine& engine = run.engine;
  const PackedLayer& packed = engine.packed.layers[static_cast<std::size_t>(layer)];
  persistent::LayerForwardWithExtras args{};
  static_cast<persistent::LayerForward&>(args) = plain;
  args.rules = rules_of(run, layer);
  for (std::size_t d = 0; d < packed.directions.size(); ++d) {
    args.peepholes[d] = peepholes_of(run, packed.directions[d]);
    if (!engine.descriptor.training) continue;
    const StateLayout& kept =
        engine.reserve.states[static_cast<std::size_t>(layer) * packed.directions.size() + d];
    if (engine.sizes.fresh_cells) args.c_fresh[d] = run.reserve<float>(kept.c_fresh);
    if (engine.sizes.drops) args.h_dropped[d] = run.reserve<void>(kept.h_dropped);
  }
  return args;
}

persistent::LayerBackwardWithExtras with_extras(const Run& run, std::int64_t layer,
                                                const persistent::LayerBackward& plain) {
  const Engine& engine = run.engine;
  const PackedLayer& packed = engine.packed.layers[static_cast<std::size_t>(layer)];
  persistent::LayerBackwardWithExtras args{};
  static_cast<persistent::LayerBackward&>(args) = plain;
  args.rules = rules_of(run, layer);
  for (std::size_t d = 0; d < packed.directions.size(); ++d) {
    args.peepholes[d] = peepholes_of(run, packed.directions[d]);
    const StateLayout& kept =
        engine.reserve.states[static_cast<std::size_t>(layer) * packed.directions.size() + d];
    if (engine.sizes.fresh_cells) args.c_fresh[d] = run.reserve<const float>(kept.c_fresh);
  }
  return args;
}

persistent::LayerForwardWithNorm with_norm(const Run& run, std::int64_t layer,
                                           const persistent::LayerForward& plain) {
  persistent::LayerForwardWithNorm args{};
  static_cast<persistent::LayerForwardWithExtras&>(args) = with_extras(run, layer, plain);
  bind_norm(run, layer, args);
  return args;
}
persistent::LayerBackwardWithNorm with_norm(const Run& run, std::int64_t layer,
                                            const persistent::LayerBackward& plain) {
  persistent::LayerBackwardWithNorm args{};
  static_cast<persistent::LayerBackwardWithExtras&>(args) = with_extras(run, layer, plain);
  bind_norm(run, layer, args);
  return args;
}

persistent::RnnForwardArgs of_rnn(const Run& run, const persistent::LayerForward& plain) {
  return {plain, run.engine.descriptor.cell == CellType::kRnnRelu};
}
persistent::RnnBackwardArgs of_rnn(const Run& run, const persistent::LayerBackward& plain) {
  return {plain, run.engine.descriptor.cell == CellType::kRnnRelu};
}

}  // namespace sluice::kernels::recurrent::cuda
