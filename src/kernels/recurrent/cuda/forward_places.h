#pragma once

#include "kernels/recurrent/cuda/step_places.h"

namespace sluice::kernels::recurrent::cuda {

/// Where the forward steps of one layer and direction find what they read and write.
class ForwardPlaces : protected StepPlaces {
 public:
  ForwardPlaces(const Run& run, std::int64_t layer, std::int64_t direction)
      : StepPlaces(run, layer, direction, StepPass::kForward),
        training_(run.engine.descriptor.training),
        projects_into_y_(sizes_.projected && !training_ && sizes_.directions == 1 &&
                         !run.lengths() && !run.engine.descriptor.has_extras()),
        packed_(run.engine.packed.layers[static_cast<std::size_t>(layer)]) {
    const auto i = static_cast<std::size_t>(index_);
    const ForwardLayout& layout = run.engine.workspace.forward;
    const StateLayout& state = training_ ? run.engine.reserve.states[i] : layout.states[i];
    std::byte* base =
        static_cast<std::byte*>(training_ ? run.memory.reserve : run.memory.workspace);
    h_ = base + state.h;
    c_ = reinterpret_cast<float*>(base + state.c);
    saved_ = base + state.saved;
    h_full_ = base + state.h_full;
    h_reset_ = base + state.h_reset;
    if (sizes_.drops) h_dropped_ = base + state.h_dropped;
    if (training_ && sizes_.fresh_cells) c_fresh_ = reinterpret_cast<float*>(base + state.c_fresh);
    input_ = run.at<float>(layout.input[static_cast<std::size_t>(layer)]);
    recurrent_ = run.workspace<float>(layout.recurrent[i]);
    projected_ = run.workspace<float>(layout.projected[i]);
    gates_ = run.workspace<float>(layout.gates[i]);
    bind_states();
  }

 protected:
  std::byte* h0() const {
    return run_.element(run_.args.h0, run_.engine.descriptor.h_offset(index_, rows_));
  }
  std::byte* hn() const {
    return run_.element(run_.args.hn, run_.engine.descriptor.h_offset(index_, rows_));
  }

  /// The state before step s: all are kept for backward, else two take turns.
  std::byte* h_at(std::int64_t s) const {
    if (s == 0 && h_first_) return h_first_;
    if (s > 0 && projects_into_y_) return y_at(walk_.time_of(s - 1));
    if (s == walk_.steps && h_last_) return h_last_;
    return run_.element(h_, (training_ ? walk_.state_row(s) : s % 2) * rows_ * output_);
  }
  float* c_at(std::int64_t s) const {
    if (s == 0 && c_first_) return c_first_;
    if (s == walk_.steps && c_last_) return c_last_;
    return c_ + (training_ ? walk_.state_row(s) : 0) * rows_ * sizes_.hidden;
  }
  /// What the product of step s reads of the state, if that is not the state itself.
  std::byte* h_dropped_at(std::int64_t s) const {
    if (!sizes_.drops) return nullptr;
    return run_.element(h_dropped_, walk_.state_row(s) * rows_ * output_);
  }
  const std::byte* h_read_at(std::int64_t s) const {
    return sizes_.drops ? h_dropped_at(s) : h_at(s);
  }
  StateRules rules(std::int64_t s) const { return run_.rules(layer_, direction_, s); }
  std::byte* h_full_at(std::int64_t t) const {
    return run_.element(h_full_, (training_ ? t : 0) * rows_ * sizes_.hidden);
  }
  std::byte* y_at(std::int64_t t) const {
    return run_.element(run_.output_of(layer_),
                        (t * rows_ * sizes_.directions + direction_) * output_);
  }
  std::int64_t y_stride() const { return sizes_.directions * output_; }
  std::int64_t input_stride() const { return sizes_.directions * sizes_.gate_width; }

  /// Where the input products of step s are.
  float* input_at(std::int64_t s, const Piece& piece) const {
    const Rung& rung = run_.engine.rung;
    std::int64_t place = 0;
    if (rung.inputs != InputProducts::kEachStep) {
      const std::int64_t held = input_steps(run_.engine.descriptor, rung, layer_, walk_.steps);
      place = held == walk_.steps ? walk_.time_of(s) : s - piece.begin;
    }
    return input_ + place * rows_ * input_stride() + direction_ * sizes_.gate_width;
  }

  const float* bias() const {
    return run_.packed<const float>(packed_.bias) + direction_ * sizes_.gate_width;
  }

  const bool training_;
  /// Whether the product of a projection is the output as it stands, and the next step reads it
  /// there.
  const bool projects_into_y_;
  const PackedLayer& packed_;
  std::byte *h_first_ = nullptr, *h_last_ = nullptr;
  float *c_first_ = nullptr, *c_last_ = nullptr;
  std::byte *h_ = nullptr, *saved_ = nullptr, *h_full_ = nullptr, *h_dropped_ = nullptr,
            *h_reset_ = nullptr;
  float *c_ = nullptr, *c_fresh_ = nullptr, *input_ = nullptr, *recurrent_ = nullptr,
        *projected_ = nullptr, *gates_ = nullptr;

 private:
  /// Steps read the first states and write the last ones where the caller has them, unless tensor
  /// copies couldn't, or backward wants the first beside those of later steps.
  void bind_states() {
    if (run_.engine.descriptor.has_extras()) return;
    // Where they are the same, blocks of a step would overwrite what others read.
    if (!projects_into_y_ && h0() != hn() && can_copy(hn())) h_last_ = hn();
    if (training_) {
      h_first_ = run_.lone_h0(layer_, direction_);
      c_first_ = run_.lone_c0(layer_, direction_);
      return;
    }
    if (h0() != hn() && can_copy(h0())) h_first_ = h0();
    const std::int64_t c = index_ * rows_ * sizes_.hidden;
    if (run_.args.c0) c_first_ = run_.args.c0.data_as<float>() + c;
    if (run_.args.cn) c_last_ = run_.args.cn.data_as<float>() + c;
  }
};

}  // namespace sluice::kernels::recurrent::cuda
