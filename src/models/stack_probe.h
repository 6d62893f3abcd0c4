#pragma once

#include <vector>

#include "layers/recurrent_stack.h"
#include "models/probe.h"
#include "runtime/buffer.h"

namespace sluice::models {

/// Shows a run of a recurrent stack to a probe; does nothing if there is no probe.
///
///   StackProbe shown(context, pass.probe, stack, args);   // before the run
///   plan.forward(context, arena, args);
///   shown.show(context, parameters, plan.implementation());
///
/// A stack is one operation and does not expose the outputs of its lower layers. They come from
/// further runs: of the first layers of the stack alone, by the same implementation. If it declines
/// so few layers, the implementation that is chosen for them runs instead. The output of the top
/// layer and the final states of every layer are those of the run itself. Takes twice the device
/// memory of an inference run.
class StackProbe {
 public:
  /// Gives `args` room for final states where it has none.
  StackProbe(const Context& context, Probe* probe, const layers::RecurrentStack& stack,
             kernels::recurrent::ForwardArgs& args);

  /// Shows the output of each layer and its final states, from the lowest layer up.
  void show(const Context& context, const layers::Parameters& parameters,
            std::string_view implementation) const;

 private:
  /// Runs the first `layers` layers and shows the output of the last of them.
  void run_first(const Context& context, const layers::Parameters& parameters,
                 std::string_view implementation, std::int64_t layers) const;
  void show_layer(const Context& context, std::int64_t layer, const Tensor& y) const;
  void show_states(const Context& context, std::int64_t layer) const;
  Tensor room(const Context& context, DType dtype, const Shape& shape);

  Probe* probe_;
  const layers::RecurrentStack* stack_;
  kernels::recurrent::ForwardArgs args_;
  std::vector<runtime::Buffer> buffers_;
};

}  // namespace sluice::models
