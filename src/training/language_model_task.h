#pragma once

#include "training/task.h"

namespace sluice::training {

/// Texts alone, for models::LanguageModel.
class LanguageModelTask final : public Task {
 public:
  std::string_view kind() const override;
  std::span<const std::string_view> keys() const override;
  /// Of sums alone.
  std::span<const ValidationMetric> metrics() const override;
  void check(const TrainConfig& config) const override;
  TrainData read_data(const TrainConfig& config, const Tokenizers* saved,
                      const base::Watch& watch) const override;
  TrainData read_validation(const TrainConfig& config, const Tokenizers& saved) const override;
  /// Of the vectors that texts are conditioned on.
  void require_widths(const TrainConfig& config, const models::Model& model,
                      const TrainData& data) const override;
  std::unique_ptr<models::Model> make_model(const TrainConfig& config,
                                            const TrainData& data) const override;
  /// With training.bptt: states that are carried from batch to batch.
  void prepare_training(const Context& context, const TrainConfig& config, const TrainData& data,
                        models::Model& model) const override;
  std::string_view embedding_of(const TrainConfig& config, Vocabulary vocabulary) const override;
};

}  // namespace sluice::training
