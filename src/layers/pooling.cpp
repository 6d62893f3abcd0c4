#include "layers/pooling.h"

#include <cmath>

#include "runtime/span.h"

namespace sluice::layers {

namespace pooling = kernels::pooling;

Pooling::Pooling(Parameters& parameters, const std::string& prefix, pooling::Kind kind,
                 std::int64_t features, std::int64_t forward_features)
    : name_(prefix), kind_(kind), features_(features), forward_features_(forward_features) {
  if (kind == pooling::Kind::kAttention) {
    query_ = parameters.declare(prefix + ".query", {features},
                                {1 / std::sqrt(static_cast<double>(features))});
  }
}

PoolingPlan::PoolingPlan(const Pooling& layer, runtime::ArenaPlanner& planner, std::int64_t time,
                         std::int64_t rows, DType storage, bool training)
    : pooling_(&layer), storage_(storage), y_(planner.saved(storage, {rows, layer.features()})) {
  if (layer.kind() == pooling::Kind::kAttention) {
    weights_ = planner.saved(base::policy_of(storage).master, {time, rows});
  }
  if (layer.kind() == pooling::Kind::kMax) {
    positions_ = planner.saved(DType::kInt32, {rows, layer.features()});
  }
  if (!training) return;
  const runtime::ScratchScope scope(planner);
  workspace_ = planner.scratch_bytes(
      pooling::backward_workspace_bytes(layer.kind(), {time, rows, layer.features()}, storage));
}

Tensor PoolingPlan::forward(const Context& context, const runtime::Arena& arena,
                            const Parameters& parameters, const Tensor& x, const Tensor& lengths) {
  const runtime::Span span(context, pooling_->name(), "forward");
  const std::int64_t rows = x.size(1);
  last_ = {};
  last_.kind = pooling_->kind();
  last_.forward_features = pooling_->forward_features();
  last_.x = x;
  last_.lengths = lengths;
  if (last_.kind == pooling::Kind::kAttention) {
    last_.query = parameters.value(*pooling_->query());
    last_.weights = arena.tensor(weights_, last_.query.dtype(), {x.size(0), rows});
  }
  if (last_.kind == pooling::Kind::kMax) {
    last_.positions = arena.tensor(positions_, DType::kInt32, {rows, x.size(2)});
  }
  last_.y = arena.tensor(y_, storage_, {rows, x.size(2)});
  pooling::forward(context, last_);
  return last_.y;
}

void PoolingPlan::backward(const Context& context, const runtime::Arena& arena,
                           const Parameters& parameters, const Tensor& dy, const Tensor& dx) const {
  const runtime::Span span(context, pooling_->name(), "backward");
  pooling::BackwardArgs args;
  args.forward = last_;
  args.dy = dy;
  args.dx = dx;
  if (pooling_->query()) {
    args.d_query = parameters.gradient(*pooling_->query());
    args.workspace = arena.data(workspace_);
  }
  pooling::backward(context, args);
}

}  // namespace sluice::layers
