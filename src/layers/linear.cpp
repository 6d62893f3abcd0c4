#include "layers/linear.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/check.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/halved.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/quantized.h"
#include "runtime/span.h"

namespace sluice::layers {

namespace elementwise = kernels::elementwise;
using kernels::matmul::AlphaArgs;
using kernels::matmul::kAlphaNumbers;
using kernels::matmul::kScaleNumbers;
using kernels::matmul::matmul;

namespace {

/// Of a gradient of at most 1 that is kept as float16: it uses the whole range, as a factor that
/// was halved.
constexpr double kGradientFactor = 1 << 14;

}  // namespace

Linear::Linear(Parameters& parameters, const std::string& prefix, std::int64_t in, std::int64_t out,
               std::optional<ParameterId> shared)
    : name_(prefix),
      in_(in),
      out_(out),
      weight_(shared
                  ? *shared
                  : parameters.declare(prefix + ".weight", {out, in},
                                       {1 / std::sqrt(static_cast<double>(in)), 0, Role::kWeight})),
      bias_(parameters.declare(prefix + ".bias", {out}, Initializer{})) {
  // Backward adds to all of it.
  parameters.set_marked(weight_, false);
}

LinearPlan::LinearPlan(const Context& context, const Linear& linear, runtime::ArenaPlanner& planner,
                       std::int64_t rows, DType storage, bool training, Gradient gradient)
    : linear_(&linear),
      storage_(storage),
      narrow_(base::policy_of(storage).master != storage),
      quantized_(context.precision().int8 && storage == DType::kFloat32 && !training &&
                 kernels::matmul::can_quantize(linear.in())),
      halved_(training && gradient == Gradient::kBounded && storage == DType::kFloat32 &&
              kernels::matmul::halves(context, rows, linear.out(), linear.in())),
      like_output_(training && gradient == Gradient::kLikeOutput),
      columns_(narrow_ && training && gradient != Gradient::kAny ? most_columns(linear.out())
                                                                 : linear.out()) {
  SLUICE_ASSERT(!like_output_ || (narrow_ && !context.device().runs_host_kernels()));
  const auto layout = [&](std::string_view what, DType dtype) {
    return layout_of(linear.name(),
                     fmt::format("{} {} of {} columns", what, base::name_of(dtype), columns_));
  };
  if (quantized_) weight_ = planner.packed_bytes(layout("weight", DType::kInt8), packed_bytes());
  if (halved_) {
    weight_ = planner.saved(DType::kFloat16, {linear.out(), linear.in()});
    scales_ = planner.saved(DType::kFloat32, {2 * kScaleNumbers + 4 * kAlphaNumbers});
    x_ = planner.scratch(DType::kFloat16, {rows, linear.in()});
    dy_ = planner.scratch(DType::kFloat16, {rows, linear.out()});
  }
  if (!narrow_) return;
  weight_ = planner.packed(layout("weight", storage), storage, {columns_, linear.in()});
  const DType master = base::policy_of(storage).master;
  if (pads()) bias_ = planner.packed(layout("bias", master), master, {columns_});
  if (like_output_) {
    narrow_bias_ = planner.packed(layout("bias", storage), storage, {columns_});
  }
  if (!training || like_output_) return;
  const runtime::ScratchScope scope(planner);
  dy_ = planner.scratch(storage, {rows, columns_});
  if (context.device().runs_host_kernels()) {
    dx_ = planner.scratch(base::policy_of(storage).accumulate, {rows, linear.in()});
  }
}

std::int64_t LinearPlan::most_columns(std::int64_t out) {
  constexpr std::int64_t kPiece = 8;  // 16 bytes of two each, which aligned loads take
  return (out + kPiece - 1) / kPiece * kPiece;
}

std::size_t LinearPlan::packed_bytes() const {
  return kernels::matmul::quantized_bytes(linear_->out(), linear_->in());
}

Tensor LinearPlan::packed(const runtime::Arena& arena) const {
  return {arena.data(weight_), DType::kUInt8, {static_cast<std::int64_t>(packed_bytes())}};
}

LinearPlan::Scales LinearPlan::scales(const runtime::Arena& arena) const {
  const Tensor all =
      arena.tensor(scales_, DType::kFloat32, {2 * kScaleNumbers + 4 * kAlphaNumbers});
  std::int64_t next = 0;
  const auto take = [&](std::int64_t count) {
    next += count;
    return all.slice(0, next - count, next);
  };
  Scales scales;
  for (Tensor* factor : {&scales.weight, &scales.x}) *factor = take(kScaleNumbers);
  for (Tensor* product : {&scales.y, &scales.d_weight, &scales.d_bias, &scales.dx}) {
    *product = take(kAlphaNumbers);
  }
  return scales;
}

Tensor LinearPlan::halved_x(const runtime::Arena& arena, const Tensor& x) const {
  return arena.tensor(x_, DType::kFloat16, x.shape());
}

Tensor LinearPlan::weight(const runtime::Arena& arena, const Parameters& parameters) const {
  if (halved_) return arena.tensor(weight_, DType::kFloat16, {linear_->out(), linear_->in()});
  if (!narrow_) return parameters.value(linear_->weight());
  return arena.tensor(weight_, storage_, {linear_->out(), linear_->in()});
}

Tensor LinearPlan::padded_weight(const runtime::Arena& arena) const {
  return arena.tensor(weight_, storage_, {columns_, linear_->in()});
}

bool LinearPlan::is_packed(std::uint64_t version) const {
  return weight_.holds(version) && (!pads() || bias_.holds(version)) &&
         (!like_output_ || narrow_bias_.holds(version));
}

void LinearPlan::pack(const Context& context, const runtime::Arena& arena,
                      const Parameters& parameters) {
  if (!narrow_ && !quantized_ && !halved_) return;
  const std::uint64_t version = parameters.version();
  if (is_packed(version)) return;
  const runtime::Span span(context, linear_->name(), "pack");
  if (halved_) {
    return kernels::matmul::halve(context, {parameters.value(linear_->weight()),
                                            weight(arena, parameters), scales(arena).weight});
  }
  if (quantized_) {
    kernels::matmul::quantize_weights(context, parameters.value(linear_->weight()), packed(arena));
    return weight_.note_packed(version);
  }
  elementwise::convert(context, parameters.value(linear_->weight()), weight(arena, parameters));
  const std::int64_t out = linear_->out();
  if (like_output_) {
    const Tensor bias = arena.tensor(narrow_bias_, storage_, {columns_});
    elementwise::convert(context, parameters.value(linear_->bias()), bias.slice(0, 0, out));
    if (pads()) context.zero(bias.slice(0, out, columns_));
  }
  if (pads()) {
    const Tensor bias = arena.tensor(bias_, parameters.dtype(), {columns_});
    context.zero(padded_weight(arena).slice(0, out, columns_));
    context.copy(bias.slice(0, 0, out), parameters.value(linear_->bias()));
    context.zero(bias.slice(0, out, columns_));
  }
  for (const runtime::Slot* slot : {&weight_, &bias_, &narrow_bias_}) slot->note_packed(version);
}

void LinearPlan::forward(const Context& context, const runtime::Arena& arena,
                         const Parameters& parameters, const Tensor& x, const Tensor& y) const {
  const runtime::Span span(context, linear_->name(), "forward");
  if (quantized_) {
    return kernels::matmul::quantized_matmul(
        context,
        {.a = x, .packed = packed(arena), .c = y, .bias = parameters.value(linear_->bias())});
  }
  if (halved_) return forward_halved(context, arena, parameters, x, y);
  const bool is_padded = y.size(1) != linear_->out();
  matmul(context, {.a = x,
                   .b = is_padded ? padded_weight(arena) : weight(arena, parameters),
                   .c = y,
                   .transpose_b = true,
                   .bias = bias(arena, parameters, y)});
}

Tensor LinearPlan::bias(const runtime::Arena& arena, const Parameters& parameters,
                        const Tensor& y) const {
  if (y.dtype() != parameters.dtype()) return arena.tensor(narrow_bias_, storage_, {y.size(1)});
  return y.size(1) == linear_->out() ? parameters.value(linear_->bias())
                                     : arena.tensor(bias_, parameters.dtype(), {columns_});
}

void LinearPlan::forward_halved(const Context& context, const runtime::Arena& arena,
                                const Parameters& parameters, const Tensor& x,
                                const Tensor& y) const {
  const Scales scale = scales(arena);
  kernels::matmul::halve(context, {x, halved_x(arena, x), scale.x});
  const AlphaArgs alpha{
      .left = scale.x, .right = scale.weight, .factor = {}, .times = 1, .alpha = scale.y};
  kernels::matmul::make_alphas(context, {&alpha, 1});
  kernels::matmul::halved_matmul(context, {.a = halved_x(arena, x),
                                           .b = weight(arena, parameters),
                                           .c = y,
                                           .transpose_b = true,
                                           .alpha = scale.y,
                                           .bias = parameters.value(linear_->bias())});
}

Tensor LinearPlan::narrow_gradient(const runtime::Arena& arena, std::int64_t n) const {
  if (halved_) return arena.tensor(dy_, DType::kFloat16, {n, linear_->out()});
  return narrow_ && !like_output_ ? arena.tensor(dy_, storage_, {n, columns_}) : Tensor();
}

double LinearPlan::gradient_factor() const { return halved_ ? kGradientFactor : 0; }

void LinearPlan::backward(const Context& context, const runtime::Arena& arena,
                          const Parameters& parameters, const Tensor& x, const Tensor& dy,
                          const Tensor& dx, const Tensor& scale) const {
  const runtime::Span span(context, linear_->name(), "backward");
  if (halved_) return backward_halved(context, arena, parameters, x, dy, dx, scale);
  const Tensor own = dy.slice(1, 0, linear_->out());
  if (!like_output_) {
    elementwise::column_sums(context, own, parameters.gradient(linear_->bias()), true);
  }
  Tensor stored = own;
  if (dy.dtype() != storage_) {
    stored = arena.tensor(dy_, storage_, own.shape());
    elementwise::convert(context, own, stored);
  }
  matmul(context, {.a = stored,
                   .b = x,
                   .c = parameters.gradient(linear_->weight()),
                   .transpose_a = true,
                   .beta = 1,
                   .bias = {}});
  if (!dx) return;
  const bool widens = narrow_ && context.device().runs_host_kernels();
  const Tensor sums = widens ? arena.tensor(dx_, parameters.dtype(), dx.shape()) : dx;
  const bool is_padded = dy.size(1) != linear_->out();
  SLUICE_ASSERT(!is_padded || dy.dtype() == storage_);
  matmul(context, {.a = is_padded ? dy : stored,
                   .b = is_padded ? padded_weight(arena) : weight(arena, parameters),
                   .c = sums,
                   .bias = {}});
  if (widens) elementwise::convert(context, sums, dx);
}

void LinearPlan::backward_halved(const Context& context, const runtime::Arena& arena,
                                 const Parameters& parameters, const Tensor& x, const Tensor& dy,
                                 const Tensor& dx, const Tensor& scale) const {
  SLUICE_ASSERT(dy.dtype() == DType::kFloat16);
  const Scales of = scales(arena);
  const auto alpha = [&](const Tensor& factor, const Tensor& out) {
    return AlphaArgs{
        .left = factor, .right = {}, .factor = scale, .times = 1 / kGradientFactor, .alpha = out};
  };
  kernels::matmul::make_alphas(
      context, std::array{alpha(of.x, of.d_weight), alpha({}, of.d_bias), alpha(of.weight, of.dx)});
  elementwise::column_sums(context, dy, parameters.gradient(linear_->bias()), true, of.d_bias);
  kernels::matmul::halved_matmul(context, {.a = dy,
                                           .b = halved_x(arena, x),
                                           .c = parameters.gradient(linear_->weight()),
                                           .transpose_a = true,
                                           .alpha = of.d_weight,
                                           .accumulate = true,
                                           .bias = {}});
  if (!dx) return;
  kernels::matmul::halved_matmul(
      context, {.a = dy, .b = weight(arena, parameters), .c = dx, .alpha = of.dx, .bias = {}});
}

}  // namespace sluice::layers
