#include "training/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "training/classifier_task.h"
#include "training/config_keys.h"
#include "training/features_task.h"
#include "training/language_model_task.h"
#include "training/seq2seq_task.h"
#include "training/tagger_task.h"

namespace sluice::training {

void Task::require_widths(const TrainConfig&, const models::Model&, const TrainData&) const {}

void Task::set_from_data(const Context&, const TrainData&, const layers::Parameters&) const {}

void Task::prepare_training(const Context&, const TrainConfig&, const TrainData&,
                            models::Model&) const {}

double Task::divergence_bound(const TrainData& data) const {
  const Tokenizers& tokenizers = data.tokenizers;
  const std::int32_t answers =
      tokenizers.labels ? tokenizers.labels->size() : tokenizers.target->size();
  return 1000 * std::log(static_cast<double>(std::max(answers, 2)));
}

const model_files::ModelKind& Task::model_kind() const { return *model_files::find_kind(kind()); }

const ValidationMetric* Task::find_metric(std::string_view key) const {
  for (const ValidationMetric& metric : metrics()) {
    if (metric.key == key) return &metric;
  }
  return nullptr;
}

std::span<const Task* const> tasks() {
  static const Seq2SeqTask seq2seq;
  static const LanguageModelTask language_model;
  static const TaggerTask tagger;
  static const ClassifierTask classifier;
  static const FeaturesTask features;
  static const Task* const all[] = {&seq2seq, &language_model, &tagger, &classifier, &features};
  return all;
}

const Task* find_task(std::string_view kind) {
  for (const Task* task : tasks()) {
    if (task->kind() == kind) return task;
  }
  return nullptr;
}

const Task& task_of(const TrainConfig& config) {
  const Task* task = find_task(config.model.kind);
  SLUICE_CHECK(task != nullptr, "model.kind is '{}'; use one of: {}", config.model.kind,
               model_files::names_of_kinds());
  return *task;
}

const Task& task_of(const LoadedModel& loaded) { return *find_task(loaded.kind->name); }

std::vector<std::string_view> useless_keys(const TrainConfig& config,
                                           std::span<const std::string_view> used,
                                           std::span<const std::string_view> known) {
  const TrainConfig unset;
  std::vector<std::string_view> found;
  for (const ConfigKey& key : config_keys()) {
    const auto is_among = [&](std::span<const std::string_view> names) {
      return std::find(names.begin(), names.end(), key.name) != names.end();
    };
    if (!is_among(known) || is_among(used)) continue;
    if (key.value_of(config) != key.value_of(unset)) found.push_back(key.name);
  }
  return found;
}

}  // namespace sluice::training
