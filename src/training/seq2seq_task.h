#pragma once

#include "training/task.h"

namespace sluice::training {

/// Pairs of texts, for models::Seq2Seq.
class Seq2SeqTask final : public Task {
 public:
  std::string_view kind() const override;
  std::span<const std::string_view> keys() const override;
  /// Beside those of sums: of answers by greedy search exact match, BLEU and chrF.
  std::span<const ValidationMetric> metrics() const override;
  void check(const TrainConfig& config) const override;
  TrainData read_data(const TrainConfig& config, const Tokenizers* saved,
                      const base::Watch& watch) const override;
  TrainData read_validation(const TrainConfig& config, const Tokenizers& saved) const override;
  std::unique_ptr<models::Model> make_model(const TrainConfig& config,
                                            const TrainData& data) const override;
  std::string_view embedding_of(const TrainConfig& config, Vocabulary vocabulary) const override;
};

}  // namespace sluice::training
