#pragma once

#include "layers/embedding.h"
#include "layers/recurrent_stack.h"
#include "models/classifier_config.h"
#include "models/sequence_output.h"

namespace sluice::models {

/// One of some classes for a sequence of tokens: configuration -> layers and parameters.
///
///   logits = output(dropout(pooling(stack(dropout(embedding)))))
class Classifier final : public Model {
 public:
  explicit Classifier(const ClassifierConfig& config);

  std::string_view kind() const override { return ClassifierConfig::kKind; }
  std::string configuration() const override { return config_.to_json(); }
  /// A StackTraining. Batches have source tokens, and labels in target_out [1, rows].
  std::unique_ptr<TrainingPlan> training_plan(const Context& context,
                                              runtime::ArenaPlanner& planner,
                                              const Extent& capacity, bool training) const override;

  const ClassifierConfig& config() const { return config_; }
  /// Of classes, in training.
  ClassWeights& class_weights() { return output_.class_weights(); }
  const layers::Embedding& embedding() const { return embedding_; }
  const layers::RecurrentStack& stack() const { return stack_; }

 private:
  ClassifierConfig config_;
  layers::Embedding embedding_;
  layers::RecurrentStack stack_;
  SequenceOutput output_;
};

}  // namespace sluice::models
