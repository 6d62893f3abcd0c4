#pragma once

#include <string>
#include <vector>

#include "kernels/recurrent/recurrent.h"
#include "layers/parameters.h"
#include "runtime/arena.h"

namespace sluice::layers {

/// The parameters of a stack of recurrent layers, named as torch names them behind a prefix:
/// `<prefix>.weight_ih_l0`, `.weight_hh_l0`, `.bias_ih_l0`, `.bias_hh_l0` (`_reverse` for the
/// backward direction, `.weight_hr_l0` with a projection,
/// `.weight_peephole_l0` with peepholes, `.gain_ih_l0`, `.gain_hh_l0`, `.gain_c_l0`, `.shift_c_l0`
/// with layer norm). They start uniform in +-1/sqrt(the layer's hidden), or as an Initialization
/// chooses.
class RecurrentStack {
 public:
  /// `architecture` needs no extent, dtype or training flag: those belong to plans.
  RecurrentStack(Parameters& parameters, const std::string& prefix,
                 const kernels::recurrent::Descriptor& architecture);

  const kernels::recurrent::Descriptor& architecture() const { return architecture_; }
  const std::string& name() const { return name_; }
  std::vector<kernels::recurrent::LayerWeights> weights(const Parameters& parameters) const;
  std::vector<kernels::recurrent::LayerWeights> gradients(const Parameters& parameters) const;

 private:
  struct Ids {
    ParameterId weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, weight_peephole;
    ParameterId gain_ih, gain_hh, gain_c, shift_c;
  };

  template <typename View>
  std::vector<kernels::recurrent::LayerWeights> views(const View& view) const;

  std::string name_;
  kernels::recurrent::Descriptor architecture_;
  std::vector<Ids> ids_;  // index layer * directions + direction
};

/// A plan for one stack at one capacity, with its memory booked.
class RecurrentStackPlan {
 public:
  /// `implementation` is "auto" or the name of a candidate; with `resets` runs may be given some.
  RecurrentStackPlan(const Context& context, const RecurrentStack& stack,
                     runtime::ArenaPlanner& planner, std::int64_t time, std::int64_t rows,
                     DType dtype, bool training, std::string_view implementation = "auto",
                     bool resets = false);

  std::string_view implementation() const { return choice_.plan->implementation(); }
  const std::vector<kernels::recurrent::Declined>& declined() const { return choice_.declined; }

  /// To be called whenever the parameters have changed.
  void pack(const Context& context, const runtime::Arena& arena, const Parameters& parameters);
  /// What args.overlap_work queues is queued, overlapped with the rest or behind it.
  void forward(const Context& context, const runtime::Arena& arena,
               kernels::recurrent::ForwardArgs args);
  /// Fills in the gradients of the stack's parameters and adds to them; args.overlap_work as
  /// forward's.
  void backward(const Context& context, const runtime::Arena& arena, const Parameters& parameters,
                kernels::recurrent::BackwardArgs args);

 private:
  kernels::recurrent::Memory memory(const runtime::Arena& arena) const;

  const RecurrentStack* stack_;
  kernels::recurrent::Choice choice_;
  runtime::Slot packed_;
  runtime::Slot reserve_;
  runtime::Slot workspace_;
};

}  // namespace sluice::layers
