#pragma once

#include <cstdint>

#include "kernels/sampling/state.h"
#include "runtime/context.h"
#include "runtime/tensor.h"

/// Sampling of n inputs x m samples, as operations on a state that lives on the device. Row
/// i * m + j is sample j of input i. One search:
///
///   start; then for each step: the model's step (tokens -> logits, attention), advance.
///
/// No operation waits for the device or reads from it, and none depends on a step number held by
/// the host. What a sample becomes depends on its own logits, the seed, its input's id and its
/// number j, and on nothing else: not on the batch, how many samples there are, threads or device.
///
/// A token is drawn from q(v) proportional to exp(x(v) / temperature) over the tokens that may
/// follow, cut to the top_k largest logits and then to the fewest of those, the largest first,
/// whose q sums to top_p or more. Of equal logits the lower token counts as larger.
///
/// Weights are integers (weights.h), made by integer operations of logits alone: sums have no
/// order and do not round, so that equal logits give equal tokens on every device. A token of less
/// than 2^-40 of the largest probability is never drawn.
namespace sluice::kernels::sampling {

using runtime::Context;

struct Rules {
  double temperature = 1;  ///< 0: always the largest logit
  std::int64_t top_k = 0;  ///< 0: all
  double top_p = 1;        ///< in (0, 1]
  std::uint64_t seed = 1;
  /// At the maximum length: true, only eos is allowed, so that every sample ends; false, the
  /// sample is cut there, and may be gone on with.
  bool force_end = true;
  std::int64_t min_length = 0;  ///< eos is not allowed after fewer tokens
  std::int32_t pad = 0;         ///< never allowed; what rows that are done feed
  std::int32_t bos = 2;         ///< never allowed; what every sample starts from
  std::int32_t eos = 3;         ///< ends a sample
  std::int32_t unknown = -1;    ///< never allowed; -1: there is none
};

/// Sets all of the state but `max_lengths`, `input_ids`, `prefix` and `prefix_lengths`, which are
/// read. Maximum lengths are in 0..extent.max_length, at least 1 where samples are cut: a cpu leaf
/// throws ErrorCode::kInvalidArgument for others, a device without a host takes the nearer end.
/// Tokens of prefixes must be in the vocabulary and none of pad, bos and eos. To
/// go on with samples that were cut, overwrite `tokens`, `scores`, `status` and `first_step`
/// afterwards.
void start(const Context& context, const Rules& rules, const State& state);

/// One step. logits [rows, V], V at most 2^23, are those of what follows; attention
/// [rows, source_time], read if the state keeps attention, is where that step of the model looked.
/// Draws a token for every live row, but takes the prefix's where the input has one for this step;
/// adds its log p (softmax over the whole vocabulary at temperature 1, so that scores are those of
/// beam search) to the row's score. Afterwards state.tokens is what the model is fed next.
/// A row of logits whose largest is not finite or that holds a NaN is noted in state.faults and
/// makes its row kImpossible, as does a row in which nothing that may follow has a finite logit.
///
/// choices [rows, V], if given: the logits with minus infinity for tokens that must not follow
/// (token_mask.h). Tokens are drawn by these, while log p stays that of `logits`; what the prefix
/// and the maximum length ask for is taken whatever they say.
void advance(const Context& context, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention, const Tensor& choices = {});

}  // namespace sluice::kernels::sampling
