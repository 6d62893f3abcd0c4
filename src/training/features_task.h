#pragma once

#include "training/task.h"

namespace sluice::training {

/// Sequences of frames with values or classes, of each frame or of each sequence, for
/// models::Features.
class FeaturesTask final : public Task {
 public:
  std::string_view kind() const override;
  std::span<const std::string_view> keys() const override;
  /// The loss of values is their mean squared error; they have no accuracy.
  std::span<const ValidationMetric> metrics() const override;
  void check(const TrainConfig& config) const override;
  TrainData read_data(const TrainConfig& config, const Tokenizers* saved,
                      const base::Watch& watch) const override;
  TrainData read_validation(const TrainConfig& config, const Tokenizers& saved) const override;
  void require_widths(const TrainConfig& config, const models::Model& model,
                      const TrainData& data) const override;
  std::unique_ptr<models::Model> make_model(const TrainConfig& config,
                                            const TrainData& data) const override;
  /// Mean and scale of the training frames, with model.normalize.
  void set_from_data(const Context& context, const TrainData& data,
                     const layers::Parameters& parameters) const override;
  double divergence_bound(const TrainData& data) const override;
  void prepare_training(const Context& context, const TrainConfig& config, const TrainData& data,
                        models::Model& model) const override;
  std::string_view embedding_of(const TrainConfig& config, Vocabulary vocabulary) const override;
};

}  // namespace sluice::training
