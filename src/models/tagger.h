#pragma once

#include <memory>
#include <optional>
#include <string>

#include "layers/crf.h"
#include "layers/embedding.h"
#include "layers/linear.h"
#include "layers/recurrent_stack.h"
#include "models/class_weights.h"
#include "models/model.h"
#include "models/tagger_config.h"

namespace sluice::models {

/// A label for each token:
///
///   emissions = output(dropout(recurrent(dropout(embedding))))
///
/// scored by a softmax each by itself, or by a CRF together. Of a Batch it uses source,
/// source_lengths, row_ids and, as labels, target_out, whose time is source_time; target_out may be
/// absent when evaluating.
class Tagger final : public Model {
 public:
  explicit Tagger(const TaggerConfig& config);

  std::string_view kind() const override { return TaggerConfig::kKind; }
  std::string configuration() const override { return config_.to_json(); }
  /// A TaggerTraining.
  std::unique_ptr<TrainingPlan> training_plan(const Context& context,
                                              runtime::ArenaPlanner& planner,
                                              const Extent& capacity, bool training) const override;

  const TaggerConfig& config() const { return config_; }
  const layers::Embedding& embedding() const { return embedding_; }
  const layers::RecurrentStack& stack() const { return stack_; }
  const layers::Linear& output() const { return output_; }
  /// Null with a softmax.
  const layers::Crf* crf() const { return crf_ ? &*crf_ : nullptr; }
  /// Of labels, in training with a softmax; plans read it in every run.
  ClassWeights& class_weights() { return class_weights_; }
  const ClassWeights& class_weights() const { return class_weights_; }

 private:
  TaggerConfig config_;
  layers::Embedding embedding_;
  layers::RecurrentStack stack_;
  layers::Linear output_;
  std::optional<layers::Crf> crf_;
  ClassWeights class_weights_;
};

}  // namespace sluice::models
