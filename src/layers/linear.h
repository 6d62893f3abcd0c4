#pragma once

#include <string>

#include "layers/parameters.h"

namespace sluice::layers {

/// y = x W^T + b with `<prefix>.weight` [out, in] and `<prefix>.bias` [out]; the weight starts
/// uniform in +-1/sqrt(in), the bias at zero.
class Linear {
 public:
  Linear(Parameters& parameters, const std::string& prefix, std::int64_t in, std::int64_t out);

  std::int64_t in() const { return in_; }
  std::int64_t out() const { return out_; }

  /// x [n, in] -> y [n, out], overwritten.
  void forward(const Context& context, const Parameters& parameters, const Tensor& x,
               const Tensor& y) const;
  /// Overwrites dx [n, in] (optional) and adds to the gradients of weight and bias.
  void backward(const Context& context, const Parameters& parameters, const Tensor& x,
                const Tensor& dy, const Tensor& dx) const;

 private:
  std::int64_t in_;
  std::int64_t out_;
  ParameterId weight_;
  ParameterId bias_;
};

}  // namespace sluice::layers
