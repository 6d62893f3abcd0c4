#pragma once

#include <cstddef>

#include "kernels/loss/loss.h"
#include "runtime/context.h"
#include "runtime/tensor.h"

/// Linear-chain conditional random field (Lafferty et al. 2001) over the labels of each row.
///
/// A row of n = lengths[row] time steps (at most `time`; fewer than 1: the row is empty) gives the
/// labels y_0 .. y_{n-1} the score
///   s(y) = start[y_0] + sum_t emissions[t, y_t] + sum_{t>0} transitions[y_{t-1}, y_t]
///        + end[y_{n-1}]
/// and the probability exp(s(y)) / Z, Z the sum of exp(s) over all sequences of labels. An empty
/// row has loss 0. Emissions are [time, rows, labels], float32 or float64, contiguous; so are the
/// chain's scores, in the same type. Minus infinity forbids a transition, a start or an end; a NaN
/// makes its row's loss NaN. All sums are taken in float64 around the largest score, so no finite
/// score overflows. A row's loss, labels and gradient of its emissions depend on that row only, to
/// the bit; sums over rows run in an order that depends on shapes alone.
namespace sluice::kernels::crf {

using runtime::Context;
using runtime::Tensor;

inline constexpr std::int64_t kMostLabels = 1024;

/// What is scored beside the emissions. Of gradients: what is added to.
struct Chain {
  Tensor transitions;  ///< [labels, labels], from the row's label to the column's
  Tensor start;        ///< [labels]
  Tensor end;          ///< [labels]
};

struct LossArgs {
  std::int64_t time = 0;
  std::int64_t rows = 0;
  Tensor emissions;  ///< [time, rows, labels]
  Chain chain;
  Tensor targets;  ///< int32 [time, rows], in [0, labels) where they count (a cpu leaf throws
                   ///< ErrorCode::kInvalidArgument for others, else the row's loss is NaN)
  Tensor lengths;  ///< int32 [rows]; absent: every row has `time` steps
  /// out like emissions, optional: the gradient of scale * (sum of losses); may be the emissions
  /// themselves. Overwritten, zero past a row's end.
  Tensor d_emissions;
  Chain d_chain;      ///< like chain, all three; needed with d_emissions, and only then. Added to.
  Tensor scale;       ///< float64 [1], e.g. 1 / number of labels; absent: 1
  Tensor loss_scale;  ///< float64 [1], multiplies `scale`; absent: 1
  Tensor best;        ///< out int32 [time, rows]: the most probable sequence, as best_labels has it
  /// out float64 [loss::kSums]: kLoss and kNll are both the sum of -log p(targets), kTokens counts
  /// labels, kCorrect those of them where `best` has the target.
  Tensor sums;
  void* workspace = nullptr;  ///< loss_workspace_bytes(..), aligned to 64
};

std::size_t loss_workspace_bytes(std::int64_t time, std::int64_t rows, std::int64_t labels,
                                 bool gradient);

/// The negative log-likelihood of given labels and, if asked for, its gradient by the
/// forward-backward algorithm.
void negative_log_likelihood(const Context& context, const LossArgs& args);

struct BestLabelsArgs {
  std::int64_t time = 0;
  std::int64_t rows = 0;
  Tensor emissions;  ///< [time, rows, labels]
  Chain chain;       ///< all absent: every label stands for itself, the argmax of its emissions
  Tensor lengths;    ///< int32 [rows]; absent: every row has `time` steps
  Tensor best;       ///< out int32 [time, rows], zero past a row's end
  Tensor scores;     ///< out float64 [rows], optional: s(best); 0 of an empty row
  void* workspace = nullptr;  ///< best_labels_workspace_bytes(..), aligned to 64
};

std::size_t best_labels_workspace_bytes(std::int64_t time, std::int64_t rows, std::int64_t labels);

/// The sequence of labels with the largest score (Viterbi 1967). Of equal scores the last label is
/// the lowest, then the one before it, and so on. The same bits on every device.
void best_labels(const Context& context, const BestLabelsArgs& args);

}  // namespace sluice::kernels::crf
