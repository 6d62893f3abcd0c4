#include "training/folds.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "training/config_keys.h"

namespace sluice::training {
namespace {

// A model is trained for each.
constexpr std::int64_t kMostFolds = 1000;

// Files of every kind of model are named by such keys.
void refuse_validation_files(const TrainConfig& config) {
  const TrainConfig unset;
  for (const ConfigKey& key : config_keys()) {
    if (!key.name.starts_with("data.validation_")) continue;
    SLUICE_CHECK(key.value_of(config) == key.value_of(unset),
                 "{} is {}, but a cross-validation validates on the fold that it holds out; leave "
                 "{} out",
                 key.name, key.value_of(config), key.name);
  }
}

std::string line(std::string_view name, std::string_view steps, std::string_view best_step,
                 std::string_view value) {
  return fmt::format("{:<20}{:>10}{:>12}{:>17}\n", name, steps, best_step, value);
}

}  // namespace

std::filesystem::path fold_folder(const TrainConfig& config, std::int64_t fold) {
  return std::filesystem::path(config.output.directory) / fmt::format("fold-{}", fold);
}

TrainConfig fold_config(const TrainConfig& config, std::int64_t folds, std::int64_t fold) {
  SLUICE_CHECK(folds >= 2 && folds <= kMostFolds,
               "--folds is {}; cross-validation needs 2 to {} folds", folds, kMostFolds);
  refuse_validation_files(config);
  TrainConfig result = config;
  if (result.data.hold_out_run == 0) result.data.hold_out_run = 1;
  result.data.hold_out_every = folds;
  result.data.hold_out_fold = fold;
  result.output.directory = fold_folder(config, fold).native();
  result.validate();
  return result;
}

FoldSummary summarize(const ValidationMetric& metric, std::vector<FoldResult> folds) {
  SLUICE_CHECK(folds.size() >= 2, "{} folds have no standard deviation", folds.size());
  FoldSummary summary;
  summary.metric = &metric;
  const auto count = static_cast<double>(folds.size());
  for (const FoldResult& fold : folds) summary.mean += fold.value / count;
  double squares = 0;
  for (const FoldResult& fold : folds) squares += std::pow(fold.value - summary.mean, 2);
  summary.deviation = std::sqrt(squares / (count - 1));
  summary.folds = std::move(folds);
  return summary;
}

std::string table(const FoldSummary& summary) {
  const ValidationMetric& metric = *summary.metric;
  std::string text = line("fold", "steps", "best step", metric.name);
  for (std::size_t i = 0; i < summary.folds.size(); ++i) {
    const FoldResult& fold = summary.folds[i];
    text += line(fmt::format("{}", i + 1), fmt::format("{}", fold.steps),
                 fmt::format("{}", fold.best_step), metric.show(fold.value));
  }
  text += line("mean", "", "", metric.show(summary.mean));
  return text + line("standard deviation", "", "", metric.show(summary.deviation));
}

std::string to_json(const FoldSummary& summary) {
  nlohmann::ordered_json json;
  json["metric"] = summary.metric->key;
  json["higher_is_better"] = summary.metric->higher_is_better;
  json["mean"] = summary.mean;
  json["standard_deviation"] = summary.deviation;
  json["folds"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < summary.folds.size(); ++i) {
    const FoldResult& fold = summary.folds[i];
    json["folds"].push_back({{"fold", i + 1},
                             {"directory", fmt::format("fold-{}", i + 1)},
                             {"steps", fold.steps},
                             {"epochs", fold.epochs},
                             {"best_step", fold.best_step},
                             {"value", fold.value}});
  }
  return json.dump(2) + "\n";
}

}  // namespace sluice::training
