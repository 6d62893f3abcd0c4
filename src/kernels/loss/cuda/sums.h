#pragma once

#include <cstdint>

#include "kernels/loss/leaves.h"

/// What the losses have in common.
namespace sluice::kernels::loss::cuda {

/// The factor of the loss sum's gradient, by its own two factors, each of which may be null.
struct Scale {
  const double* scale;
  const double* loss_scale;

  template <typename Args>
  explicit Scale(const Args& args)
      : scale(args.scale.template data_as<const double>()),
        loss_scale(args.loss_scale.template data_as<const double>()) {}
  __device__ double value() const {
    return (scale != nullptr ? *scale : 1) * (loss_scale != nullptr ? *loss_scale : 1);
  }
};

/// The results of all tokens into the sums, in an order that depends on their number alone.
/// kLossParts more of them, behind, are used on the way.
void add_up(Stream& stream, TokenResult* results, std::int64_t tokens, double* sums,
            bool accumulate);

}  // namespace sluice::kernels::loss::cuda
