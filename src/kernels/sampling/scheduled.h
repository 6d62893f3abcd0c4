#pragma once

#include <cstdint>

#include "runtime/context.h"
#include "runtime/rng.h"
#include "runtime/tensor.h"

namespace sluice::kernels::sampling {

using runtime::Context;
using runtime::Tensor;

/// Arguments of schedule_inputs; `time` steps of `rows` rows have logits, those from `first_time`
/// on.
struct ScheduledInputsArgs {
  std::int64_t first_time = 0;
  std::int64_t time = 0;
  std::int64_t rows = 0;
  Tensor logits;   ///< float32 or float64 [time * rows, V], V at least 2: of what follows each step
  Tensor tokens;   ///< int32 [all time, rows]: what each step is fed; changed in place
  Tensor lengths;  ///< int32 [rows]
  Tensor row_ids;  ///< int32 [rows]: global row of each; absent: the row index
  Tensor probability;  ///< float64 [1]: of a prediction in place of a token, 0 to 1
  runtime::DropoutSource source;
};

/// Scheduled sampling (Bengio et al., "Scheduled sampling for sequence prediction with recurrent
/// neural networks", NIPS 2015) over all steps at once: for each step t with logits whose next step
/// lies before the row's end, tokens[t + 1, row] becomes the token of the largest logit of step t
/// if source.key().word(row id, t + 1, 0) is below probability * 2^32. Token 0, padding, is never
/// chosen; of equal logits the lower token is, and token 1 where all are NaN.
void schedule_inputs(const Context& context, const ScheduledInputsArgs& args);

/// Whether the coin of a token falls on the prediction. Works in device code as well.
constexpr bool takes_prediction(std::uint32_t word, double probability) {
  return static_cast<double>(word) < probability * 4294967296.0;
}

}  // namespace sluice::kernels::sampling
