#pragma once

#include "training/task.h"

namespace sluice::training {

/// Texts with a label each, for models::Classifier.
class ClassifierTask final : public Task {
 public:
  std::string_view kind() const override;
  std::span<const std::string_view> keys() const override;
  std::span<const ValidationMetric> metrics() const override;
  void check(const TrainConfig& config) const override;
  /// Labels are those of the training examples, in byte order; a label to validate on that is none
  /// of them is refused with its line. Texts without tokens, and those that are too long, are left
  /// out.
  TrainData read_data(const TrainConfig& config, const Tokenizers* saved,
                      const base::Watch& watch) const override;
  TrainData read_validation(const TrainConfig& config, const Tokenizers& saved) const override;
  std::unique_ptr<models::Model> make_model(const TrainConfig& config,
                                            const TrainData& data) const override;
  void prepare_training(const Context& context, const TrainConfig& config, const TrainData& data,
                        models::Model& model) const override;
  std::string_view embedding_of(const TrainConfig& config, Vocabulary vocabulary) const override;
};

}  // namespace sluice::training
