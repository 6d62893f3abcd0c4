#include "training/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/elementwise/elementwise.h"
#include "kernels/optimizer/optimizer.h"
#include "runtime/span.h"
#include "training/parameter_patterns.h"

namespace sluice::training {

namespace kernel = kernels::optimizer;
using runtime::DType;

namespace {

constexpr const char* kLossScaleName = "optimizer.loss_scale";

}  // namespace

Optimizer::Optimizer(const Context& context, const layers::Parameters& parameters,
                     const OptimizerConfig& config, bool scales_loss)
    : Optimizer(context, parameters, config, scales_loss, {0, parameters.flat_size()}) {}

Optimizer::Optimizer(const Context& context, const layers::Parameters& parameters,
                     const OptimizerConfig& config, bool scales_loss,
                     const distributed::Share& shard)
    : parameters_(&parameters), config_(config), shard_(shard) {
  SLUICE_ASSERT(parameters.has_gradients() && parameters.dtype() == DType::kFloat32);
  divide_parameters();
  if (is_adam()) {
    add_moment(context, "first_moment");
    add_moment(context, "second_moment");
  } else if (config.momentum > 0) {
    add_moment(context, "momentum");
  }
  if (config.ema_decay > 0) add_moment(context, "average_sum");
  const std::int64_t partials = kernel::partial_count(parameters.flat_size());
  partials_memory_ =
      runtime::Buffer(context.device(), static_cast<std::size_t>(partials) * sizeof(double));
  partials_ = partials_memory_.tensor(DType::kFloat64, {partials});
  sum_memory_ = runtime::Buffer(context.device(), sizeof(double));
  sum_of_squares_ = sum_memory_.tensor(DType::kFloat64, {1});
  if (!scales_loss) return;
  std::array<double, kernel::kLossScaleNumbers> numbers{};
  numbers[kernel::kScale] = kernel::kFirstLossScale;
  scale_memory_ = runtime::Buffer(context.device(), sizeof numbers);
  loss_scale_ = scale_memory_.tensor(DType::kFloat64, {kernel::kLossScaleNumbers});
  context.upload<double>(loss_scale_, numbers);
}

void Optimizer::divide_parameters() {
  const ParameterPatterns frozen("training.freeze", config_.freeze);
  const auto& specs = parameters_->specs();
  frozen.require_use(specs, names_of(specs));
  for (layers::ParameterId id = 0; id < specs.size(); ++id) {
    const bool fixed = !specs[id].trained || frozen.match(specs[id].name);
    std::vector<Range>& ranges = fixed ? frozen_ : trained_;
    const std::int64_t begin = parameters_->offset(id);
    const std::int64_t end =
        id + 1 < specs.size() ? parameters_->offset(id + 1) : parameters_->flat_size();
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end});
    }
  }
  SLUICE_CHECK(!trained_.empty(), "training.freeze is '{}', which leaves nothing to train",
               config_.freeze);
}

void Optimizer::add_moment(const Context& context, const char* name) {
  Moment moment{name, runtime::Buffer(context.device(), parameters_->values().byte_size()), {}};
  moment.values = moment.memory.tensor(DType::kFloat32, {parameters_->flat_size()});
  context.zero(moment.values);
  moments_.push_back(std::move(moment));
}

void Optimizer::step(const Context& context, const Tensor& step, const Tensor& learning_rate) {
  measure(context);
  apply(context, step, learning_rate);
  finish(context);
}

void Optimizer::measure(const Context& context) {
  const runtime::Span span(context, "optimizer", "norm");
  for (const Range& range : frozen_) {
    context.zero(parameters_->gradients().slice(0, range.begin, range.end));
  }
  kernels::GradientMarks marks = parameters_->gradient_marks();
  if (marks.values) {
    marks.values =
        marks.values.slice(0, kernels::mark_of(shard_.begin), kernels::mark_count(shard_.end));
  }
  kernel::sum_of_squares(context, {parameters_->gradients().slice(0, shard_.begin, shard_.end),
                                   partials_, sum_of_squares_, loss_scale_, marks});
}

void Optimizer::apply(const Context& context, const Tensor& step,
                      const Tensor& learning_rate) const {
  apply(context, shard_, step, learning_rate);
}

void Optimizer::apply(const Context& context, const distributed::Share& part, const Tensor& step,
                      const Tensor& learning_rate) const {
  const runtime::Span span(context, "optimizer", "step");
  for (const Range& range : trained_) {
    const Range own{std::max(range.begin, part.begin), std::min(range.end, part.end)};
    if (own.begin < own.end) queue_step(context, own, step, learning_rate);
  }
}

std::vector<distributed::Share> Optimizer::trained() const {
  std::vector<distributed::Share> ranges;
  for (const Range& range : trained_) ranges.push_back({range.begin, range.end});
  return ranges;
}

void Optimizer::finish(const Context& context) {
  if (config_.ema_decay > 0) update_average(context);
  if (loss_scale_) kernel::update_loss_scale(context, {loss_scale_, sum_of_squares_});
}

void Optimizer::queue_step(const Context& context, const Range& range, const Tensor& step,
                           const Tensor& learning_rate) const {
  const auto part = [&](const Tensor& arena) { return arena.slice(0, range.begin, range.end); };
  const kernels::GradientMarks marks{parameters_->gradient_marks().values, range.begin};
  const kernel::Clipping clipping{sum_of_squares_, config_.clip_norm, loss_scale_};
  if (is_adam()) {
    kernel::AdamArgs args;
    args.parameters = part(parameters_->values());
    args.gradients = part(parameters_->gradients());
    args.marks = marks;
    args.first_moment = part(moments_[0].values);
    args.second_moment = part(moments_[1].values);
    args.clipping = clipping;
    args.step = step;
    args.learning_rate = learning_rate;
    args.beta1 = config_.beta1;
    args.beta2 = config_.beta2;
    args.epsilon = config_.epsilon;
    args.weight_decay = config_.weight_decay;
    args.decoupled_decay = true;
    kernel::adam_step(context, args);
    return;
  }
  kernel::SgdArgs args;
  args.parameters = part(parameters_->values());
  args.gradients = part(parameters_->gradients());
  args.marks = marks;
  if (config_.momentum > 0) args.momentum_buffer = part(moments_[0].values);
  args.clipping = clipping;
  args.learning_rate = learning_rate;
  args.momentum = config_.momentum;
  args.weight_decay = config_.weight_decay;
  kernel::sgd_step(context, args);
}

// Begun with zeros, the sum holds each step's parameters with a weight that falls as they age; the
// first ones have no more than their share, as they would have if it began with them.
void Optimizer::update_average(const Context& context) const {
  kernels::elementwise::scale(context, average_sum(), config_.ema_decay);
  kernels::elementwise::accumulate(context, 1 - config_.ema_decay, parameters_->values(),
                                   average_sum());
}

double Optimizer::average_weight(std::int64_t steps) const {
  // The factors as float32 arithmetic has them: near one, 1 - decay is another number there.
  const double decay = static_cast<float>(config_.ema_decay);
  const double newest = static_cast<float>(1 - config_.ema_decay);
  return newest * (1 - std::pow(decay, static_cast<double>(steps))) / (1 - decay);
}

std::string Optimizer::tensor_name(const Moment& moment, layers::ParameterId id) const {
  return fmt::format("optimizer.{}.{}", moment.name, parameters_->specs()[id].name);
}

std::vector<Tensor> Optimizer::state() const {
  std::vector<Tensor> tensors;
  for (const Moment& moment : moments_) tensors.push_back(moment.values);
  if (loss_scale_) tensors.push_back(loss_scale_);
  return tensors;
}

void Optimizer::save(const Context& context, io::TensorTable& tensors) const {
  if (loss_scale_) {
    tensors.add(kLossScaleName, io::HostTensor::copy_of<double>(
                                    context.download<double>(loss_scale_), loss_scale_.shape()));
  }
  for (const Moment& moment : moments_) {
    const std::vector<float> flat = context.download<float>(moment.values);
    for (layers::ParameterId id = 0; id < parameters_->specs().size(); ++id) {
      const runtime::Shape& shape = parameters_->specs()[id].shape;
      const auto part = std::span(flat).subspan(static_cast<std::size_t>(parameters_->offset(id)),
                                                static_cast<std::size_t>(shape.element_count()));
      tensors.add(tensor_name(moment, id), io::HostTensor::copy_of<float>(part, shape));
    }
  }
}

void Optimizer::load(const Context& context, const io::Container& container) const {
  if (loss_scale_ && container.tensors.find(kLossScaleName) != nullptr) {
    const io::HostTensor& saved =
        io::require_tensor(container, kLossScaleName, loss_scale_.shape(), DType::kFloat64);
    context.upload<double>(loss_scale_, saved.values<double>());
  }
  for (const Moment& moment : moments_) {
    for (layers::ParameterId id = 0; id < parameters_->specs().size(); ++id) {
      const runtime::Shape& shape = parameters_->specs()[id].shape;
      const io::HostTensor& saved = io::require_tensor(container, tensor_name(moment, id), shape);
      const std::int64_t begin = parameters_->offset(id);
      context.upload<float>(moment.values.slice(0, begin, begin + shape.element_count()),
                            saved.values<float>());
    }
  }
}

}  // namespace sluice::training
