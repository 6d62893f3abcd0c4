#pragma once

#include "kernels/recurrent/cuda/step_places.h"

namespace sluice::kernels::recurrent::cuda {

/// Where the backward steps of one layer and direction find what they read and write. Turn p of the
/// loop takes step steps-1-p.
class BackwardPlaces : protected StepPlaces {
 public:
  BackwardPlaces(const Run& run, const BackwardArgs& args, std::int64_t layer,
                 std::int64_t direction)
      : StepPlaces(run, layer, direction, StepPass::kBackward),
        args_(args),
        packed_(run.engine.packed.layers[static_cast<std::size_t>(layer)]
                    .directions[static_cast<std::size_t>(direction)]) {
    const auto i = static_cast<std::size_t>(index_), l = static_cast<std::size_t>(layer);
    const StateLayout& state = run.engine.reserve.states[i];
    std::byte* lone = run.lone_h0(layer, direction);
    h_ = lone ? lone : run.reserve<std::byte>(state.h);
    c_ = run.reserve<float>(state.c);
    saved_ = run.reserve<std::byte>(state.saved);
    const BackwardLayout& layout = run.engine.workspace.backward;
    d_input_ = run.element(run.at<std::byte>(layout.d_input[l]), direction * sizes_.gate_width);
    d_recurrent_ = run.workspace<std::byte>(layout.d_recurrent[i]);
    dh_ = run.workspace<float>(layout.dh[i]);
    dc_ = run.workspace<float>(layout.dc[i]);
    dh_out_ = run.workspace<std::byte>(layout.dh_out[i]);
    dh_full_ = run.workspace<float>(layout.dh_full[i]);
    if (sizes_.drops || scaled_) product_ = run.workspace<float>(layout.product[i]);
    if (sizes_.resets_before) candidate_ = run.workspace<float>(layout.product[i]);
    h_dropped_ = run.reserve<std::byte>(state.h_dropped);
    dh_whole_ = run.workspace<float>(layout.dh_whole[i]);
    dc_whole_ = run.workspace<float>(layout.dc_whole[i]);
    dy_ = layer + 1 == sizes_.layers ? static_cast<const std::byte*>(args.dy.data())
                                     : run.at<const std::byte>(layout.dy[l]);
    // Every row is active and nothing goes around the product: it may overwrite.
    extras_ = run.engine.descriptor.has_extras();
    product_alone_ = !sizes_.carries_h && !sizes_.projected && run.lengths() == nullptr && !extras_;
    if (product_alone_ && !fused_) parts_ = parts_of_step(run.engine.descriptor, run.engine.rung);
  }

 protected:
  /// Null if absent.
  const std::byte* dhn() const {
    return run_.element(args_.dhn, run_.engine.descriptor.h_offset(index_, rows_));
  }
  /// Whether the cell of the first turn reads it as the caller gave it.
  bool reads_dhn() const {
    return run_.engine.rung.fused_pointwise && !extras_ && !sizes_.projected;
  }

  /// The gradient of h that turn p starts from.
  float* dh_at(std::int64_t p) const { return dh_ + p % 2 * parts_ * rows_ * output_; }
  /// Into how many products the one that leaves it there is cut.
  std::int64_t parts_at(std::int64_t p) const { return p > 0 && p < walk_.steps ? parts_ : 1; }

  std::int64_t d_input_stride() const { return sizes_.directions * sizes_.gate_width; }
  std::byte* d_input_at(std::int64_t t) const {
    return run_.element(d_input_, t * rows_ * d_input_stride());
  }

  std::int64_t time_of_turn(std::int64_t p) const { return walk_.time_of(walk_.steps - 1 - p); }
  const std::byte* dy_at(std::int64_t t) const {
    return run_.element(dy_, (t * rows_ * sizes_.directions + direction_) * output_);
  }

  /// The gate gradients of turn p, as the recurrent product takes them.
  const std::byte* gates_at(std::int64_t p) const {
    const std::int64_t t = time_of_turn(p);
    return sizes_.gates_apart ? run_.element(d_recurrent_, t * rows_ * sizes_.gate_width)
                              : d_input_at(t);
  }
  std::int64_t gates_stride() const {
    return sizes_.gates_apart ? sizes_.gate_width : d_input_stride();
  }

  StateRules rules_of_turn(std::int64_t p) const {
    return run_.rules(layer_, direction_, walk_.steps - 1 - p);
  }
  /// What the turn before has multiplied, if that waits for its mask.
  const float* product_of_turn(std::int64_t p) const { return p > 0 ? product_ : nullptr; }

  const BackwardArgs& args_;
  const PackedDirection& packed_;
  bool product_alone_ = false, extras_ = false;
  std::int64_t parts_ = 1;
  std::byte *h_ = nullptr, *h_dropped_ = nullptr, *saved_ = nullptr, *d_input_ = nullptr,
            *d_recurrent_ = nullptr, *dh_out_ = nullptr;
  const std::byte* dy_ = nullptr;
  float *c_ = nullptr, *dh_ = nullptr, *dc_ = nullptr, *dh_full_ = nullptr, *dh_whole_ = nullptr,
        *dc_whole_ = nullptr, *product_ = nullptr, *candidate_ = nullptr;
};

}  // namespace sluice::kernels::recurrent::cuda
