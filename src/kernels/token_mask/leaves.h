#pragma once

#include "kernels/token_mask/token_mask.h"

namespace sluice::kernels::token_mask {

using runtime::Stream;

/// The operations of token_mask.h on one kind of device: arguments are checked already, and each is
/// queued on the stream.
struct Leaves {
  void (*update)(Stream& stream, const Rules& rules, const State& state, const Tensor& step,
                 const Tensor& tokens, const Tensor& parents);
  void (*apply)(Stream& stream, const Tensor& mask, const Tensor& logits, const Tensor& out);
  void (*pick)(Stream& stream, const Tensor& of_steps, const Tensor& step, const Tensor& mask);
};

}  // namespace sluice::kernels::token_mask
