#pragma once

#include <vector>

#include "layers/embedding.h"
#include "layers/linear.h"
#include "layers/recurrent_stack.h"
#include "models/carried_states.h"
#include "models/language_model_config.h"
#include "models/model.h"

namespace sluice::models {

/// Recurrent language model: configuration -> layers and parameters.
///
///   logits = output(dropout(stack(dropout(embedding))))
///
/// The stack starts from zero; or, with config().features, layer l from h = tanh(W_l f + b_l) (and
/// c likewise, by weights of its own) of a feature vector f; or from where an earlier batch ended
/// (`carry_states`). A matrix tied to the embedding (LanguageModelConfig::tie_embeddings) is the
/// parameter "embedding.weight"; its gradients are added in a fixed order: of the output, of the
/// embedding.
class LanguageModel final : public Model {
 public:
  explicit LanguageModel(const LanguageModelConfig& config);

  std::string_view kind() const override { return LanguageModelConfig::kKind; }
  std::string configuration() const override { return config_.to_json(); }
  /// A LanguageModelTraining.
  std::unique_ptr<TrainingPlan> training_plan(const Context& context,
                                              runtime::ArenaPlanner& planner,
                                              const Extent& capacity, bool training) const override;

  const LanguageModelConfig& config() const { return config_; }

  const layers::Embedding& embedding() const { return embedding_; }
  const layers::RecurrentStack& stack() const { return stack_; }
  const layers::Linear& output() const { return output_; }
  /// From features to the start of h of each layer, then of c of each; empty without features.
  const std::vector<layers::Linear>& start_layers() const { return start_; }

  bool has_cell_state() const;
  /// Of h and of c of `rows` rows: [layers, rows, width of the state].
  Shape h_shape(std::int64_t rows) const { return {config_.layers, rows, config_.width()}; }
  Shape c_shape(std::int64_t rows) const { return {config_.layers, rows, config_.hidden}; }

  /// Truncated back-propagation through time: plans made from now on start rows from the states in
  /// which rows of the batch before ended, as `Batch::source` says (see LanguageModelTraining).
  /// Takes memory for two sets of `rows` rows: of plans that train and of plans that evaluate. The
  /// parameters must have been allocated. Not for a model with features.
  void carry_states(const Context& context, std::int64_t rows);
  /// The states of plans that train, "states.h" and "states.c"; none unless they are carried.
  std::vector<NamedTensor> carried_tensors() const override;
  /// Null unless states are carried.
  CarriedStates* carried(bool training) const {
    return training ? carried_training_.get() : carried_evaluation_.get();
  }

 private:
  LanguageModelConfig config_;
  layers::Embedding embedding_;
  layers::RecurrentStack stack_;
  std::vector<layers::Linear> start_;
  layers::Linear output_;
  std::unique_ptr<CarriedStates> carried_training_, carried_evaluation_;
};

}  // namespace sluice::models
