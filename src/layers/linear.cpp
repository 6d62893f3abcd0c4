#include "layers/linear.h"

#include <cmath>

#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"

namespace sluice::layers {

using kernels::matmul::matmul;

Linear::Linear(Parameters& parameters, const std::string& prefix, std::int64_t in, std::int64_t out)
    : in_(in),
      out_(out),
      weight_(parameters.declare(prefix + ".weight", {out, in},
                                 {1 / std::sqrt(static_cast<double>(in))})),
      bias_(parameters.declare(prefix + ".bias", {out}, Initializer{})) {}

void Linear::forward(const Context& context, const Parameters& parameters, const Tensor& x,
                     const Tensor& y) const {
  matmul(context, {.a = x,
                   .b = parameters.value(weight_),
                   .c = y,
                   .transpose_b = true,
                   .bias = parameters.value(bias_)});
}

void Linear::backward(const Context& context, const Parameters& parameters, const Tensor& x,
                      const Tensor& dy, const Tensor& dx) const {
  matmul(context, {.a = dy,
                   .b = x,
                   .c = parameters.gradient(weight_),
                   .transpose_a = true,
                   .beta = 1,
                   .bias = {}});
  kernels::elementwise::column_sums(context, dy, parameters.gradient(bias_), true);
  if (dx) matmul(context, {.a = dy, .b = parameters.value(weight_), .c = dx, .bias = {}});
}

}  // namespace sluice::layers
