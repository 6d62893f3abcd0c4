#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "training/train_config.h"
#include "training/validation_report.h"

namespace sluice::training {

/// The configuration of one run of a k-fold cross-validation: fold `fold` (counted from 1) of
/// `folds` is held out to validate on, in runs of data.hold_out_run neighbours (1 if that is not
/// set), and what the run writes goes to fold_folder. Throws ErrorCode::kInvalidArgument for fewer
/// than two folds, where validation files are named, and for what TrainConfig::validate refuses.
TrainConfig fold_config(const TrainConfig& config, std::int64_t folds, std::int64_t fold);

/// <output.directory>/fold-<fold>
std::filesystem::path fold_folder(const TrainConfig& config, std::int64_t fold);

/// How the run of a fold ended.
struct FoldResult {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;     ///< completed
  std::int64_t best_step = 0;  ///< of the model that was kept
  double value = 0;            ///< of the metric that it was kept for
};

/// What a cross-validation found.
struct FoldSummary {
  const ValidationMetric* metric = nullptr;
  std::vector<FoldResult> folds;
  double mean = 0;
  double deviation = 0;  ///< sample standard deviation, sqrt(sum of (value - mean)^2 / (K - 1))
};

/// Of at least two folds.
FoldSummary summarize(const ValidationMetric& metric, std::vector<FoldResult> folds);

/// A line for each fold, then mean and standard deviation.
std::string table(const FoldSummary& summary);
/// The same as JSON, numbers to the bit.
std::string to_json(const FoldSummary& summary);

}  // namespace sluice::training
