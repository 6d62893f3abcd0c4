#pragma once

#include <cstdint>

#include "kernels/gradient_marks.h"
#include "kernels/optimizer/loss_scale.h"
#include "runtime/context.h"
#include "runtime/tensor.h"

/// Steps of an optimiser over flat arenas of parameters, and the norm that clips them. The norm
/// stays on the device: nothing waits for it.
///
/// Arenas are [n], contiguous, float32 or float64, one dtype in a call. Results repeat to the bit
/// whatever the number of threads.
namespace sluice::kernels::optimizer {

using runtime::Context;
using runtime::Tensor;

/// Partial sums that `sum_of_squares` needs for n elements.
std::int64_t partial_count(std::int64_t n);

struct ZeroGradientsArgs {
  Tensor gradients;     ///< [n], out: zero
  GradientMarks marks;  ///< in/out: marks of all of them, which are taken away
};

/// Writes only what is marked.
void zero_gradients(const Context& context, const ZeroGradientsArgs& args);

struct SumOfSquaresArgs {
  Tensor gradients;  ///< [n]
  Tensor partials;   ///< scratch, float64 [at least partial_count(n)]
  Tensor sum;        ///< out float64 [1]; not finite if an element isn't
  Tensor loss_scale =
      {};  ///< that gradients carry (loss_scale.h), which the sum doesn't; absent: none
  GradientMarks marks = {};  ///< of all gradients
};

/// sum of (gradients / scale)^2, in float64 over fixed blocks; the same bits whether what is zero
/// is marked or not.
void sum_of_squares(const Context& context, const SumOfSquaresArgs& args);

/// Clipping by the global norm: gradients are multiplied by min(1, max_norm / (norm + 1e-6)), as
/// torch.nn.utils.clip_grad_norm_ does, while a step reads them; they are not changed in memory.
struct Clipping {
  /// float64 [1] as sum_of_squares left it; absent: no clipping and no check. If it isn't finite,
  /// the step changes nothing: the weights stay good while the host finds out.
  Tensor sum_of_squares;
  double max_norm = 0;  ///< 0 or less: no clipping, but still the check
  /// That gradients carry and a step divides out (loss_scale.h); absent: none.
  Tensor loss_scale = {};
};

/// Adam (Kingma and Ba 2015) with bias correction, for gradients g after clipping:
///   g += weight_decay * p                                     (not decoupled)
///   p -= learning_rate * weight_decay * p                     (decoupled: Loshchilov, Hutter 2019)
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
///   p -= learning_rate / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + epsilon)
/// which is what torch.optim.Adam and AdamW compute.
struct AdamArgs {
  Tensor parameters;  ///< p [n], in/out
  Tensor gradients;   ///< [n], not read but taken to be zero where not marked
  GradientMarks marks = {};
  Tensor first_moment;   ///< m [n], in/out, zero before the first step
  Tensor second_moment;  ///< v [n], in/out, zero before the first step
  Clipping clipping;
  // On the device, so that a captured step can be run again.
  Tensor step;  ///< int32 [1], counted from 1; those that the loss scale skipped don't count
  Tensor learning_rate;  ///< float64 [1]
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled_decay = false;
};
void adam_step(const Context& context, const AdamArgs& args);

/// Gradient descent with momentum, for gradients g after clipping, as torch.optim.SGD:
///   g += weight_decay * p,  buffer = momentum * buffer + g
///   p -= learning_rate * buffer, or with nesterov: p -= learning_rate * (g + momentum * buffer)
struct SgdArgs {
  Tensor parameters;  ///< p [n], in/out
  Tensor gradients;   ///< [n], not read but taken to be zero where not marked
  GradientMarks marks = {};
  Tensor momentum_buffer;  ///< [n], in/out, zero before the first step; absent without momentum
  Clipping clipping;
  Tensor learning_rate;  ///< float64 [1], on the device as Adam's
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};
void sgd_step(const Context& context, const SgdArgs& args);

}  // namespace sluice::kernels::optimizer
