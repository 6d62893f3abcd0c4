#pragma once

#include <cstddef>

#include "runtime/context.h"
#include "runtime/tensor.h"

/// Losses of training and what goes with them: softmax over a vocabulary with its scores of given
/// targets and log-probabilities, and the squared error of values.
///
/// logits are [time * rows, V], float32 or float64, contiguous, time-major; cross entropy's rows
/// may be strided, and of bfloat16 or float16. Token n = t * rows + r belongs to row r at time
/// first_time + t and counts if that is below lengths[r]. Targets are in [0, V) where they count (a
/// cpu leaf throws ErrorCode::kInvalidArgument for others; on a device without a host their loss is
/// NaN).
/// Log-sums are taken around the row's largest logit, so no logits up to 2e38 overflow; a NaN or a
/// logit of +infinity of a counted token makes its loss NaN. In float32 a log-probability is off by
/// about 1e-6 relative to 1 + the spread of the logits. A token's results depend on its own row of
/// logits only, to the bit; sums over tokens run in rising n on the host, on a GPU in an order that
/// depends on their number alone.
namespace sluice::kernels::loss {

using runtime::Context;
using runtime::Tensor;

/// The elements of `sums`: of CrossEntropyArgs, and what a SquaredErrorArgs has in their place.
enum Sum : int {
  kLoss = 0,     ///< what is minimised, with label smoothing; the frames' mean squared errors
  kNll = 1,      ///< -log p(target): perplexity is exp(nll / tokens); as kLoss
  kTokens = 2,   ///< tokens that count; frames
  kCorrect = 3,  ///< those whose target has the largest logit (the first of equal ones); NaN
  kSums = 4
};

/// Loss of a token with target y, p = softmax(logits):
///   (1 - e) * -log p_y + (e / V) * sum over j of -log p_j,     e = label_smoothing
/// (Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision").
struct CrossEntropyArgs {
  std::int64_t first_time = 0;  ///< t of the first logits: a sequence may come in parts
  std::int64_t time = 0;
  std::int64_t rows = 0;
  /// [time * rows, V]. Of 16 bits each: rows begin at multiples of 16 bytes, in memory that goes on
  /// up to another; sums are made as of the same numbers in float32.
  Tensor logits;
  Tensor targets;              ///< int32 [time * rows]
  Tensor lengths;              ///< int32 [rows]; absent: every token counts
  double label_smoothing = 0;  ///< in [0, 1)
  /// float32 [V], finite and not negative: a token's loss is multiplied by that of its target (but
  /// for label smoothing the `weight` of torch.nn.CrossEntropyLoss; kNll and the rest of the sums
  /// are as without). Absent: all are 1.
  Tensor class_weights;
  /// out like logits, or bfloat16 or float16 for logits of float32, rounded once; optional: the
  /// gradient of scale * (sum of losses). May be logits itself, may be strided, and may have more
  /// columns. Overwritten, zero in those and where a token doesn't count.
  Tensor d_logits;
  /// [V], in the type that sums are made in, added to: the gradient's sum over tokens, before or
  /// after it is rounded. Optional, with d_logits.
  Tensor d_bias;
  Tensor scale;                  ///< float64 [1], e.g. 1 / number of target tokens; absent: 1
  Tensor loss_scale;             ///< float64 [1], multiplies `scale`; absent: 1
  double gradient_factor = 1;    ///< multiplies `scale` too
  Tensor sums;                   ///< out float64 [kSums]
  bool accumulate_sums = false;  ///< add to sums instead of overwriting
  void* workspace = nullptr;     ///< cross_entropy_workspace_bytes(time * rows), aligned to 8
};

std::size_t cross_entropy_workspace_bytes(std::int64_t tokens);

/// Loss sums and, if asked for, gradient in one pass.
void cross_entropy(const Context& context, const CrossEntropyArgs& args);

/// Error of a frame n with N values y against targets d: the mean of (y_j - d_j)^2 over its values.
/// So kLoss / kTokens is the mean squared error, what torch.nn.MSELoss takes of frames that all
/// count. Frames are numbered and counted as tokens are.
struct SquaredErrorArgs {
  std::int64_t first_time = 0;  ///< t of the first frames: a sequence may come in parts
  std::int64_t time = 0;
  std::int64_t rows = 0;
  Tensor predictions;  ///< [time * rows, N], float32 or float64
  Tensor targets;      ///< float32 [time * rows, N]; finite where they count
  Tensor lengths;      ///< int32 [rows]; absent: every frame counts
  /// out like predictions, optional: the gradient of scale * (sum of errors), 2 / N * (y - d) *
  /// scale; may be predictions itself. Overwritten, zero where a frame doesn't count.
  Tensor d_predictions;
  Tensor scale;                  ///< float64 [1], e.g. 1 / number of frames; absent: 1
  Tensor loss_scale;             ///< float64 [1], multiplies `scale`; absent: 1
  Tensor sums;                   ///< out float64 [kSums]
  bool accumulate_sums = false;  ///< add to sums instead of overwriting
  void* workspace = nullptr;     ///< squared_error_workspace_bytes(time * rows), aligned to 8
};

std::size_t squared_error_workspace_bytes(std::int64_t frames);

/// Loss sums and, if asked for, gradient in one pass.
void squared_error(const Context& context, const SquaredErrorArgs& args);

struct TargetScoreArgs {
  std::int64_t first_time = 0;  ///< t of the first logits: a sequence may come in parts
  std::int64_t time = 0;
  std::int64_t rows = 0;
  Tensor logits;        ///< [time * rows, V]
  Tensor targets;       ///< int32 [time * rows]
  Tensor lengths;       ///< int32 [rows]; absent: every token counts
  Tensor token_scores;  ///< out float64 [time * rows]: log p(target), 0 where a token doesn't count
  Tensor row_scores;    ///< out float64 [rows], optional: their sum over time
};

/// Log-probabilities of given targets.
void score_targets(const Context& context, const TargetScoreArgs& args);

/// out [n, V] = log softmax of logits [n, V]; out may be logits. A logit of minus infinity stays
/// so.
void log_softmax(const Context& context, const Tensor& logits, const Tensor& out);

}  // namespace sluice::kernels::loss
