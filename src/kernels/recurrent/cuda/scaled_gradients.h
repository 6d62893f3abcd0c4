#pragma once

#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/scaled_factors.h"

namespace sluice::kernels::recurrent::cuda {

/// What products of the weight gradients of a layer and direction read, in storage.
struct GradientFactors {
  GradientFactors(const Run& run, std::int64_t layer, std::int64_t direction);

  const std::byte* d_input;  ///< [depth, G*H], of rows of D*G*H
  const float*
      row_scales;  ///< [depth]: gradients are float16 that they scale back; null: in storage
  std::int64_t input_stride;
  const std::byte* d_recurrent;  ///< [depth, G*H]; d_input, where it is the same
  std::int64_t recurrent_stride;
  const std::byte* h;  ///< [depth, output]: the state before each step
};

/// The products of a layer's weight gradients in TF32, of factors that were scaled before.
class ScaledGradients {
 public:
  /// Whether a run's products are so large that this is faster.
  static bool pay(const Run& run, std::int64_t layer);

  /// Whether backward leaves gate gradients scaled, row by row: then inputs' gradients are products
  /// of float16, too.
  static bool by_row(const Run& run);
  /// Queues to [time, rows, input] = gate gradients * input weights, of the times of a piece and of
  /// some of the rows.
  static void multiply_input_weights(const Run& run, std::int64_t lane, std::int64_t layer,
                                     const Piece& times, const RowRange& rows, float* to);

  /// Queues the scaling on the lane, which has all factors.
  ScaledGradients(const Run& run, const BackwardArgs& args, std::int64_t layer, std::int64_t lane);

  /// The gradient of weight_ih [G*H, input] or weight_hh [G*H, H], once the lane follows that of
  /// the scaling. An absent target is none of its business.
  void input_product(std::int64_t lane, const Tensor& target, std::int64_t direction) const;
  void recurrent_product(std::int64_t lane, const Tensor& target, std::int64_t direction) const;

 private:
  struct Half {
    const std::uint16_t* data;
    std::int64_t stride;
  };
  void multiply(std::int64_t lane, const Tensor& target, const Half& left,
                const std::uint16_t* right, int product) const;
  std::uint16_t* half(std::size_t offset) const { return run_.workspace<std::uint16_t>(offset); }

  const Run& run_;
  const ScaledLayout& layout_;
  const std::uint16_t* const d_input_;
  const std::int64_t depth_;
  const bool accumulate_;
};

}  // namespace sluice::kernels::recurrent::cuda
