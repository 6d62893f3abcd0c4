#pragma once

#include <nlohmann/json.hpp>

#include "kernels/optimizer/optimizer.h"
#include "layers/parameters.h"
#include "unit/support/on_device.h"

namespace sluice::testing {

/// Updates parameters in float32 as a golden file of losses says: "optimizer" (adam or sgd),
/// "learning_rate", "clip_norm", and, where it has one, by gradients that carry a "loss_scale".
class GoldenOptimizer {
 public:
  GoldenOptimizer(const runtime::Context& context, const nlohmann::json& golden,
                  const layers::Parameters& parameters)
      : context_(&context), golden_(&golden), parameters_(&parameters) {
    const std::int64_t size = parameters.flat_size();
    first_moment_ = take(DType::kFloat32, size);
    second_moment_ = take(DType::kFloat32, size);
    context.zero(first_moment_);
    context.zero(second_moment_);
    partials_ = take(DType::kFloat64, kernels::optimizer::partial_count(size));
    sum_ = take(DType::kFloat64, 1);
    step_ = take(DType::kInt32, 1);
    learning_rate_ = take(DType::kFloat64, 1);
    context.upload<double>(learning_rate_, std::vector{golden.at("learning_rate").get<double>()});
    if (!golden.contains("loss_scale")) return;
    numbers_ = take(DType::kFloat64, kernels::optimizer::kLossScaleNumbers);
    context.upload<double>(numbers_, std::vector{golden.at("loss_scale").get<double>(), 0.0, 0.0});
  }

  /// For models::Pass; absent without one.
  Tensor loss_scale() const {
    return numbers_ ? numbers_.slice(0, kernels::optimizer::kScale, 1) : Tensor();
  }

  /// `step` is counted from 1.
  void update(std::int32_t step) const {
    namespace optimizer = kernels::optimizer;
    optimizer::sum_of_squares(*context_, {parameters_->gradients(), partials_, sum_, numbers_});
    const optimizer::Clipping clipping{sum_, golden_->at("clip_norm"), numbers_};
    if (golden_->at("optimizer") == "adam") {
      context_->upload<std::int32_t>(step_, std::vector{step});
      optimizer::AdamArgs args;
      args.parameters = parameters_->values();
      args.gradients = parameters_->gradients();
      args.first_moment = first_moment_;
      args.second_moment = second_moment_;
      args.clipping = clipping;
      args.step = step_;
      args.learning_rate = learning_rate_;
      return optimizer::adam_step(*context_, args);
    }
    optimizer::SgdArgs args;
    args.parameters = parameters_->values();
    args.gradients = parameters_->gradients();
    args.clipping = clipping;
    args.learning_rate = learning_rate_;
    optimizer::sgd_step(*context_, args);
  }

 private:
  Tensor take(DType dtype, std::int64_t count) {
    memory_.emplace_back(context_->device(),
                         base::size_of(dtype) * static_cast<std::size_t>(count));
    return memory_.back().tensor(dtype, {count});
  }

  const runtime::Context* context_;
  const nlohmann::json* golden_;
  const layers::Parameters* parameters_;
  std::vector<runtime::Buffer> memory_;
  Tensor first_moment_, second_moment_, partials_, sum_, step_, learning_rate_, numbers_;
};

}  // namespace sluice::testing
