#pragma once

#include "kernels/sampling/sampling.h"
#include "kernels/sampling/scheduled.h"

namespace sluice::kernels::sampling {

using runtime::Stream;

/// The operations of sampling.h and scheduled.h on one kind of device: arguments are checked
/// already, and each is queued on the stream.
struct Leaves {
  void (*start)(Stream& stream, const Rules& rules, const State& state);
  void (*advance)(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
                  const Tensor& attention, const Tensor& choices);
  void (*schedule_inputs)(Stream& stream, const ScheduledInputsArgs& args);
};

}  // namespace sluice::kernels::sampling
