#pragma once

#include <array>
#include <cstdint>

#include "kernels/sampling/weights.h"
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
  bool draws = false;  ///< whether predictions are drawn; V is at most 2^23 then
  runtime::DropoutSource source;
};

/// Scheduled sampling (Bengio et al., "Scheduled sampling for sequence prediction with recurrent
/// neural networks", NIPS 2015) over all steps at once: for each step t with logits whose next step
/// lies before the row's end, tokens[t + 1, row] becomes the prediction of step t if
/// source.key().word(row id, t + 1, 0) is below probability * 2^32. The prediction is the token of
/// the largest logit; of equal ones the lower token, and token 1 where all are NaN. Or it is drawn
/// from q(v) proportional to exp(logit(v)), by the weights of sampling.h and the words 1 and 2 of
/// the same row and step; where no logit is finite or one is infinite, it is the likeliest again.
/// Token 0, padding, is never chosen.
void schedule_inputs(const Context& context, const ScheduledInputsArgs& args);

/// Of words(row id, step, 0): where in [0, total) the draw of a token falls.
constexpr std::uint64_t place_of_draw(const std::array<std::uint32_t, 4>& words,
                                      std::uint64_t total) {
  return high_product(std::uint64_t{words[2]} << 32 | words[1], total);
}

/// Whether the coin of a token falls on the prediction. Works in device code as well.
constexpr bool takes_prediction(std::uint32_t word, double probability) {
  return static_cast<double>(word) < probability * 4294967296.0;
}

}  // namespace sluice::kernels::sampling
