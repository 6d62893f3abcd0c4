#pragma once

#include "kernels/beam_search/beam_search.h"

namespace sluice::kernels::beam_search {

using runtime::Stream;

/// The operations of beam_search.h on one kind of device: arguments are checked already, and each
/// is queued on the stream.
struct Leaves {
  void (*start)(Stream& stream, const Rules& rules, const State& state);
  void (*advance)(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
                  const Tensor& attention);
  void (*advance_extras)(Stream& stream, const Rules& rules, const Extras& extras,
                         const State& state, const Tensor& logits, const Tensor& attention);
  void (*record)(Stream& stream, const State& state, const StepRecord& into);
  void (*trace_back)(Stream& stream, const Rules& rules, const State& state, const Tensor& tokens,
                     const Tensor& attention);
};

}  // namespace sluice::kernels::beam_search
