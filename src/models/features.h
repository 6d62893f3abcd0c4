#pragma once

#include <optional>
#include <span>

#include "layers/recurrent_stack.h"
#include "models/features_config.h"
#include "models/sequence_output.h"

namespace sluice::models {

class StackTraining;

/// A recurrent stack on dense features, with values (regression) or classes for each frame or for a
/// sequence: configuration -> layers and parameters.
///
///   outputs = output(dropout(pooling(stack((features - mean) * scale))))
///
/// pooling and output are there as the configuration says. mean and scale are the parameters
/// "input.mean" and "input.scale" [features], which training leaves as they are: 0 and 1 unless
/// set.
class Features final : public Model {
 public:
  explicit Features(const FeaturesConfig& config);

  std::string_view kind() const override { return FeaturesConfig::kKind; }
  std::string configuration() const override { return config_.to_json(); }
  /// A StackTraining. Batches have source float32 [time, rows, features], and in target_out float32
  /// [target_time, rows, outputs] or labels; target_time is the source's, or 1 for a sequence.
  std::unique_ptr<TrainingPlan> training_plan(const Context& context,
                                              runtime::ArenaPlanner& planner,
                                              const Extent& capacity, bool training) const override;
  /// The same, for what only a StackTraining has.
  std::unique_ptr<StackTraining> plan(const Context& context, runtime::ArenaPlanner& planner,
                                      const Extent& capacity, bool training) const;

  const FeaturesConfig& config() const { return config_; }
  /// Of classes, in training.
  ClassWeights& class_weights() { return output_.class_weights(); }
  const layers::RecurrentStack& stack() const { return stack_; }

  /// Whether frames are normalised, by which parameters.
  struct Normalization {
    layers::ParameterId mean, scale;
  };
  const std::optional<Normalization>& normalization() const { return normalization_; }
  /// Sets them, a number a feature, if such a model's allocated parameters have them. scale is one
  /// over the standard deviation.
  static void set_normalization(const Context& context, const layers::Parameters& parameters,
                                std::span<const double> mean, std::span<const double> scale);

 private:
  FeaturesConfig config_;
  std::optional<Normalization> normalization_;
  layers::RecurrentStack stack_;
  SequenceOutput output_;
};

}  // namespace sluice::models
