#pragma once

#include <cstdint>

#include "distributed/communicator.h"
#include "io/checkpoint.h"
#include "layers/parameters.h"
#include "training/train_config.h"

namespace sluice::training {

using runtime::Context;
using runtime::Tensor;

/// Adam or SGD over a model's flat float32 arenas, with clipping by the global norm. Moments are
/// arenas of the same layout. With dynamic loss scaling it takes the scale out of the gradients and
/// adapts it (kernels/optimizer/loss_scale.h). With ema_decay it keeps an exponential moving
/// average of the parameters. Frozen parameters, and their moments, stay what they are to the bit,
/// and their gradients are no part of the norm.
class Optimizer {
 public:
  /// `parameters` must be allocated with gradients and outlive the optimiser. Throws
  /// ErrorCode::kInvalidArgument if a pattern of config.freeze matches none of them or all are
  /// frozen.
  /// One that steps only the elements `shard` of the arenas, whose ends cut no mark
  /// (kernels/gradient_marks.h).
  Optimizer(const Context& context, const layers::Parameters& parameters,
            const OptimizerConfig& config, bool scales_loss, const distributed::Share& shard);
  /// One that steps all of them.
  Optimizer(const Context& context, const layers::Parameters& parameters,
            const OptimizerConfig& config, bool scales_loss = false);

  /// Takes the gradients as they stand, and clears those of frozen parameters. `step`, int32 [1],
  /// counts from 1; `learning_rate` is float64 [1]. Changes nothing if the gradients' norm is not
  /// finite. Does not wait for the device.
  void step(const Context& context, const Tensor& step, const Tensor& learning_rate);
  /// The parts of step, between which ranks meet: sum_of_squares() over its own gradients; its own
  /// parameters; what follows once all are there.
  void measure(const Context& context);
  void apply(const Context& context, const Tensor& step, const Tensor& learning_rate) const;
  /// Steps only the elements of `part`, whose ends cut no mark.
  void apply(const Context& context, const distributed::Share& part, const Tensor& step,
             const Tensor& learning_rate) const;
  void finish(const Context& context);

  /// The elements of the flat arenas that are trained, in rising order.
  std::vector<distributed::Share> trained() const;

  /// float64 [1]: sum of the squares of the gradients that the last step met, before clipping.
  const Tensor& sum_of_squares() const { return sum_of_squares_; }

  /// float64 [kernels::optimizer::kLossScaleNumbers]; absent if the loss is not scaled.
  const Tensor& loss_scale() const { return loss_scale_; }

  /// float32 [flat size of the parameters]: their average times average_weight(); absent without
  /// ema_decay.
  Tensor average_sum() const { return config_.ema_decay > 0 ? moments_.back().values : Tensor(); }
  /// What the weights of the parameters in average_sum() sum to after so many steps, at least one.
  double average_weight(std::int64_t steps) const;

  /// Returns the tensors that a step changes beside the parameters: moments and, if there is one,
  /// the loss scale.
  std::vector<Tensor> state() const;

  /// The moments of each parameter as float32 "optimizer.first_moment.<parameter>" (adam also
  /// "second_moment", sgd "momentum"; with ema_decay "average_sum"), of the parameter's shape.
  /// The loss scale as "optimizer.loss_scale".
  void save(const Context& context, io::TensorTable& tensors) const;
  /// Takes them back; throws ErrorCode::kFormat if one lacks or has another shape. A run whose loss
  /// was not scaled begins with a new scale.
  void load(const Context& context, const io::Container& container) const;

 private:
  struct Moment {
    const char* name;
    runtime::Buffer memory;
    Tensor values;  ///< [flat size of the parameters]
  };

  /// Elements of the flat arenas.
  struct Range {
    std::int64_t begin, end;
  };

  void divide_parameters();
  void queue_step(const Context& context, const Range& range, const Tensor& step,
                  const Tensor& learning_rate) const;
  void update_average(const Context& context) const;
  bool is_adam() const { return config_.optimizer == "adam"; }
  void add_moment(const Context& context, const char* name);
  std::string tensor_name(const Moment& moment, layers::ParameterId id) const;

  const layers::Parameters* parameters_;
  OptimizerConfig config_;
  distributed::Share shard_;
  std::vector<Moment> moments_;
  // Neighbours of a kind are one range.
  std::vector<Range> trained_;
  std::vector<Range> frozen_;
  runtime::Buffer partials_memory_;
  runtime::Buffer sum_memory_;
  runtime::Buffer scale_memory_;
  Tensor partials_;
  Tensor sum_of_squares_;
  Tensor loss_scale_;
};

}  // namespace sluice::training
