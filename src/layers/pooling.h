#pragma once

#include <optional>
#include <string>

#include "kernels/pooling/pooling.h"
#include "layers/parameters.h"
#include "runtime/arena.h"

namespace sluice::layers {

/// A sequence as one row of features (kernels/pooling). Attention has a parameter,
/// `<prefix>.query` [features], which starts uniform in +-1/sqrt(features).
class Pooling {
 public:
  /// `forward_features`: those of the stack's forward direction, of `features`.
  Pooling(Parameters& parameters, const std::string& prefix, kernels::pooling::Kind kind,
          std::int64_t features, std::int64_t forward_features);

  kernels::pooling::Kind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  std::int64_t features() const { return features_; }
  std::int64_t forward_features() const { return forward_features_; }
  /// Absent unless it is attention.
  std::optional<ParameterId> query() const { return query_; }

 private:
  std::string name_;
  kernels::pooling::Kind kind_;
  std::int64_t features_;
  std::int64_t forward_features_;
  std::optional<ParameterId> query_;
};

/// A plan for up to `time` steps of `rows` rows, with its memory booked.
class PoolingPlan {
 public:
  PoolingPlan(const Pooling& pooling, runtime::ArenaPlanner& planner, std::int64_t time,
              std::int64_t rows, DType storage, bool training);

  /// x [time, rows, features], lengths int32 [rows] -> [rows, features], a view of the arena that
  /// lives until the next call. x has to live until backward.
  Tensor forward(const Context& context, const runtime::Arena& arena, const Parameters& parameters,
                 const Tensor& x, const Tensor& lengths);
  /// With what the last forward was given: dy [rows, features] -> dx, like x, overwritten. Adds to
  /// the gradient of the query.
  void backward(const Context& context, const runtime::Arena& arena, const Parameters& parameters,
                const Tensor& dy, const Tensor& dx) const;

 private:
  const Pooling* pooling_;
  DType storage_;
  runtime::Slot y_, weights_, positions_, workspace_;
  kernels::pooling::ForwardArgs last_;
};

}  // namespace sluice::layers
