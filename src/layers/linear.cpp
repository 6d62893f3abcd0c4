#include "layers/linear.h"

#include <cmath>

#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/quantized.h"
#include "runtime/span.h"

namespace sluice::layers {

namespace elementwise = kernels::elementwise;
using kernels::matmul::matmul;

Linear::Linear(Parameters& parameters, const std::string& prefix, std::int64_t in, std::int64_t out,
               std::optional<ParameterId> shared)
    : name_(prefix),
      in_(in),
      out_(out),
      weight_(shared
                  ? *shared
                  : parameters.declare(prefix + ".weight", {out, in},
                                       {1 / std::sqrt(static_cast<double>(in)), 0, Role::kWeight})),
      bias_(parameters.declare(prefix + ".bias", {out}, Initializer{})) {}

LinearPlan::LinearPlan(const Context& context, const Linear& linear, runtime::ArenaPlanner& planner,
                       std::int64_t rows, DType storage, bool training)
    : linear_(&linear),
      storage_(storage),
      narrow_(base::policy_of(storage).master != storage),
      quantized_(context.precision().int8 && storage == DType::kFloat32 && !training &&
                 kernels::matmul::can_quantize(linear.in())) {
  if (quantized_) weight_ = planner.saved_bytes(packed_bytes());
  if (!narrow_) return;
  weight_ = planner.saved(storage, {linear.out(), linear.in()});
  if (!training) return;
  const runtime::ScratchScope scope(planner);
  dy_ = planner.scratch(storage, {rows, linear.out()});
  dx_ = planner.scratch(base::policy_of(storage).accumulate, {rows, linear.in()});
}

std::size_t LinearPlan::packed_bytes() const {
  return kernels::matmul::quantized_bytes(linear_->out(), linear_->in());
}

Tensor LinearPlan::packed(const runtime::Arena& arena) const {
  return {arena.data(weight_), DType::kUInt8, {static_cast<std::int64_t>(packed_bytes())}};
}

Tensor LinearPlan::weight(const runtime::Arena& arena, const Parameters& parameters) const {
  if (!narrow_) return parameters.value(linear_->weight());
  return arena.tensor(weight_, storage_, {linear_->out(), linear_->in()});
}

void LinearPlan::pack(const Context& context, const runtime::Arena& arena,
                      const Parameters& parameters) {
  if (!narrow_ && !quantized_) return;
  const runtime::Span span(context, linear_->name(), "pack");
  if (quantized_) {
    return kernels::matmul::quantize_weights(context, parameters.value(linear_->weight()),
                                             packed(arena));
  }
  elementwise::convert(context, parameters.value(linear_->weight()), weight(arena, parameters));
}

void LinearPlan::forward(const Context& context, const runtime::Arena& arena,
                         const Parameters& parameters, const Tensor& x, const Tensor& y) const {
  const runtime::Span span(context, linear_->name(), "forward");
  if (quantized_) {
    return kernels::matmul::quantized_matmul(
        context,
        {.a = x, .packed = packed(arena), .c = y, .bias = parameters.value(linear_->bias())});
  }
  matmul(context, {.a = x,
                   .b = weight(arena, parameters),
                   .c = y,
                   .transpose_b = true,
                   .bias = parameters.value(linear_->bias())});
}

Tensor LinearPlan::narrow_gradient(const runtime::Arena& arena, std::int64_t n) const {
  return narrow_ ? arena.tensor(dy_, storage_, {n, linear_->out()}) : Tensor();
}

void LinearPlan::backward(const Context& context, const runtime::Arena& arena,
                          const Parameters& parameters, const Tensor& x, const Tensor& dy,
                          const Tensor& dx) const {
  const runtime::Span span(context, linear_->name(), "backward");
  elementwise::column_sums(context, dy, parameters.gradient(linear_->bias()), true);
  Tensor stored = dy;
  if (dy.dtype() != storage_) {
    stored = narrow_gradient(arena, dy.size(0));
    elementwise::convert(context, dy, stored);
  }
  matmul(context, {.a = stored,
                   .b = x,
                   .c = parameters.gradient(linear_->weight()),
                   .transpose_a = true,
                   .beta = 1,
                   .bias = {}});
  if (!dx) return;
  const Tensor sums = narrow_ ? arena.tensor(dx_, parameters.dtype(), dx.shape()) : dx;
  matmul(context, {.a = stored, .b = weight(arena, parameters), .c = sums, .bias = {}});
  if (narrow_) elementwise::convert(context, sums, dx);
}

}  // namespace sluice::layers
