#include "training/features_task.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/counted.h"
#include "data/frame_corpus.h"
#include "models/features.h"
#include "training/class_weights.h"
#include "training/features_data.h"
#include "training/stack_keys.h"
#include "training/streamed_data.h"

namespace sluice::training {
namespace {

models::FeaturesConfig architecture_of(const ModelConfig& model, std::int64_t features,
                                       std::int64_t outputs) {
  models::FeaturesConfig config;
  config.features = features;
  config.normalize = model.normalize;
  config.stack = stack_config_of(model);
  config.target = model.target;
  config.outputs = outputs;
  if (model.pooling != "auto") config.pooling = model.pooling;
  config.output_layer = model.output_layer;
  return config;
}

const data::FrameExamples& frames_of(const TrainData& data) {
  return dynamic_cast<const data::FrameExamples&>(*data.train);
}

}  // namespace

std::string_view FeaturesTask::kind() const { return models::FeaturesConfig::kKind; }

std::span<const std::string_view> FeaturesTask::keys() const {
  static constexpr std::string_view kKeys[] = {
      "data.features",
      "data.targets",
      "data.validation_features",
      "data.validation_targets",
      "data.resets",
      "data.validation_resets",
      "data.hold_out_run",
      "data.hold_out_every",
      "data.hold_out_fold",
      "data.stream",
      "data.max_source_tokens",
      "model.cell",
      "model.initializer",
      "model.recurrent_initializer",
      "model.forget_bias",
      "model.gate_bias",
      "model.hidden",
      "model.layers",
      "model.widths",
      "model.projections",
      "model.bidirectional",
      "model.pooling",
      "model.target",
      "model.normalize",
      "model.output_layer",
      "model.dropout",
      "model.peepholes",
      "model.layer_norm",
      "model.zoneout_h",
      "model.zoneout_c",
      "model.recurrent_dropout",
      "model.hard_sigmoid",
      "training.class_weights",
      "training.label_smoothing",
  };
  return kKeys;
}

std::span<const ValidationMetric> FeaturesTask::metrics() const {
  static const ValidationMetric metrics[] = {kLossMetric, kAccuracyMetric};
  return metrics;
}

void FeaturesTask::check(const TrainConfig& config) const {
  // The architecture's own checks, with widths that only the data will tell.
  const std::int64_t outputs = stack_config_of(config.model).output_width();
  const models::FeaturesConfig architecture = architecture_of(config.model, 1, outputs);
  architecture.validate();
  SLUICE_CHECK(config.data.resets.empty() || architecture.is_per_frame(),
               "data.resets is set, but model.pooling is {}: episodes within a sequence are for "
               "models that answer each frame; give each episode as a sequence",
               architecture.pooling);
  if (architecture.has_classes()) return;
  SLUICE_CHECK(config.loop.keep_best != kAccuracyMetric.key,
               "training.keep_best is accuracy, but model.target is values, which have none; use "
               "loss");
  SLUICE_CHECK(config.loop.label_smoothing == 0,
               "training.label_smoothing is {}, but model.target is values; leave it out",
               config.loop.label_smoothing);
  SLUICE_CHECK(config.loop.class_weights.empty(),
               "training.class_weights is '{}', but model.target is values; leave it out",
               config.loop.class_weights);
}

TrainData FeaturesTask::read_data(const TrainConfig& config, const Tokenizers* saved,
                                  const base::Watch& watch) const {
  if (config.data.stream) return stream_features_data(config, saved, watch);
  return read_features_data(config, saved, watch);
}

TrainData FeaturesTask::read_validation(const TrainConfig& config, const Tokenizers& saved) const {
  if (config.data.stream) return streamed_features_validation(config, saved);
  const DataConfig& files = config.data;
  if (!files.features.empty()) return read_data(config, &saved, {});
  TrainData data;
  data.tokenizers = saved;
  add_features_validation(config, read_features_validation(config), files.validation_targets, data);
  return data;
}

void FeaturesTask::require_widths(const TrainConfig&, const models::Model& model,
                                  const TrainData& data) const {
  const models::FeaturesConfig& config = dynamic_cast<const models::Features&>(model).config();
  const auto& corpus = dynamic_cast<const data::FrameCorpus&>(*data.validation);
  SLUICE_CHECK(corpus.frames.width == config.features,
               "{}: its frames have {}, but the model was trained on frames of {}",
               corpus.frames.names.front(), base::counted(corpus.frames.width, "feature"),
               config.features);
  if (config.has_classes()) return;
  SLUICE_CHECK(corpus.values.width == config.outputs,
               "{}: its targets have {} each, but the model was trained on targets of {}",
               corpus.values.names.front(), base::counted(corpus.values.width, "value"),
               config.outputs);
}

std::unique_ptr<models::Model> FeaturesTask::make_model(const TrainConfig& config,
                                                        const TrainData& data) const {
  const data::FrameExamples& examples = frames_of(data);
  const std::int64_t outputs =
      data.tokenizers.labels ? data.tokenizers.labels->size() : examples.outputs();
  return std::make_unique<models::Features>(
      architecture_of(config.model, examples.features(), outputs));
}

void FeaturesTask::set_from_data(const Context& context, const TrainData& data,
                                 const layers::Parameters& parameters) const {
  const data::FrameStatistics statistics = frames_of(data).statistics();
  std::vector<double> scale;
  for (const double deviation : statistics.deviation) {
    scale.push_back(deviation > 0 ? 1 / deviation : 1);  // what never changes is only shifted
  }
  models::Features::set_normalization(context, parameters, statistics.mean, scale);
}

double FeaturesTask::divergence_bound(const TrainData& data) const {
  if (data.tokenizers.labels) return Task::divergence_bound(data);
  double largest = 1;
  for (const data::Examples* examples : {data.train.get(), data.validation.get()}) {
    if (examples == nullptr) continue;
    const auto& frames = dynamic_cast<const data::FrameExamples&>(*examples);
    largest = std::max(largest, static_cast<double>(frames.largest_target()));
  }
  return std::pow(1000 * largest, 2);
}

void FeaturesTask::prepare_training(const Context& context, const TrainConfig& config,
                                    const TrainData& data, models::Model& model) const {
  set_class_weights(context, config, data, dynamic_cast<models::Features&>(model).class_weights());
}

std::string_view FeaturesTask::embedding_of(const TrainConfig&, Vocabulary) const { return {}; }

}  // namespace sluice::training
