#pragma once

#include "kernels/loss/loss.h"
#include "runtime/rng.h"

/// A linear layer of few classes and the cross entropy of its outputs, forward and backward at
/// once: neither logits nor their gradient are in memory. On GPUs only, in types of 16 bits; other
/// devices throw ErrorCode::kUnsupported.
namespace sluice::kernels::loss {

/// Whether this context's device takes so many classes of rows of `in` numbers.
bool projects(const Context& context, base::DType storage, std::int64_t in, std::int64_t classes);

/// logits = x' W^T + b, where x' is x dropped out as kernels/elementwise has it; their loss and
/// sums are those of CrossEntropyArgs. Factors of products are rounded to x's type, the gradient of
/// the logits too; sums are float32, of partial results float64. Sums over tokens have an order
/// that depends on their number alone.
struct ProjectedCrossEntropyArgs {
  std::int64_t time = 0;
  std::int64_t rows = 0;
  Tensor x;                    ///< [time, rows, in], bfloat16 or float16
  Tensor weight;               ///< [V, in], like x
  Tensor bias;                 ///< float32 [V]
  Tensor targets;              ///< int32 [time, rows]
  Tensor lengths;              ///< int32 [rows]; absent: every token counts
  double label_smoothing = 0;  ///< in [0, 1)
  double dropout = 0;          ///< rate, 0 <= dropout < 1
  runtime::DropoutSource source;
  Tensor row_ids;             ///< int32 [rows]: global row of each; absent: the row index
  Tensor scale;               ///< float64 [1], of the gradient; absent: 1
  Tensor loss_scale;          ///< float64 [1], multiplies `scale`; absent: 1
  Tensor dx;                  ///< out like x, not x itself
  Tensor d_weight;            ///< float32 [V, in], added to
  Tensor d_bias;              ///< float32 [V], added to
  Tensor sums;                ///< out float64 [kSums]
  void* workspace = nullptr;  ///< projected_cross_entropy_workspace_bytes(V, in), aligned to 16
  void* mask = nullptr;   ///< projected_mask_bytes(time * rows, in), aligned to 16; with dropout
  bool is_drawn = false;  ///< whether the mask is what draw_projected_mask has drawn
};

std::size_t projected_cross_entropy_workspace_bytes(std::int64_t classes, std::int64_t in);
std::size_t projected_mask_bytes(std::int64_t tokens, std::int64_t in);

/// Draws what dropout of x keeps by the same arguments, while x is computed, say: writes the mask,
/// and of tensors reads only row_ids.
void draw_projected_mask(const Context& context, const ProjectedCrossEntropyArgs& args);

void projected_cross_entropy(const Context& context, const ProjectedCrossEntropyArgs& args);

}  // namespace sluice::kernels::loss
