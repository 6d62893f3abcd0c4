#include "training/quantization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "data/batches.h"
#include "kernels/loss/loss.h"
#include "model_files/batch_upload.h"
#include "model_files/plan_cache.h"
#include "model_files/stored_weights.h"
#include "models/language_model.h"

namespace sluice::training {
namespace {

using io::DType;
using layers::ParameterId;

constexpr std::array kClips{0.95, 0.9, 0.8, 0.7};
/// Less is chance.
constexpr double kBetter = 0.02;
/// Spread over all lengths of the examples.
constexpr std::size_t kExamples = 128;

/// The files that a kind of model reads to be judged.
struct Files {
  using File = std::string DataConfig::*;
  std::string_view kind, metric;
  File validation, validation_targets = nullptr;
};

constexpr std::array kFiles{
    Files{"seq2seq", "bleu", &DataConfig::validation_source, &DataConfig::validation_target},
    Files{"language_model", "perplexity", &DataConfig::validation_text,
          &DataConfig::validation_features},
    Files{"tagger", "f1", &DataConfig::validation_conll},
    Files{"classifier", "accuracy", &DataConfig::validation_table},
    Files{"features", "loss", &DataConfig::validation_features, &DataConfig::validation_targets},
};

const Files& files_of(const LoadedModel& loaded) {
  const auto* found = std::find_if(kFiles.begin(), kFiles.end(), [&](const Files& files) {
    return files.kind == loaded.kind->name;
  });
  SLUICE_ASSERT(found != kFiles.end());
  return *found;
}

bool takes_targets(const LoadedModel& loaded) {
  const auto* model = dynamic_cast<const models::LanguageModel*>(loaded.model.get());
  if (model != nullptr) return model->config().features > 0;
  return files_of(loaded).validation_targets != nullptr;
}

/// What a parameter's values become in 8 bits.
std::vector<float> through_int8(const layers::ParameterSpec& spec, std::span<const float> values,
                                double clip) {
  io::Container container;
  model_files::add_stored(container, spec.name, spec.shape, values, DType::kInt8, clip);
  return model_files::stored_values(container, spec.name, spec.shape);
}

/// The losses of a few examples, each by itself.
class Losses {
 public:
  Losses(const LoadedModel& loaded, const data::Examples& examples)
      : examples_(examples), plans_(*loaded.model) {
    data::BatchOptions options = batches_to_judge(loaded, examples);
    options.max_rows = 1;
    auto all = data::sorted_batches(examples.lengths(), data::in_their_order(examples, options));
    const std::size_t count = std::min(kExamples, all.size());
    for (std::size_t i = 0; i < count; ++i) {
      batches_.push_back(std::move(all[i * all.size() / count]));
    }
  }

  std::vector<double> measure(const Context& context) {
    std::vector<double> losses;
    for (const data::BatchRows& rows : batches_) {
      const models::Batch batch = upload_.upload(context, examples_.assemble(rows));
      models::TrainingPlan& plan = plans_.plan(context, batch.extent, false);
      const auto sums = context.download<double>(plan.evaluate(context, plans_.arena(), batch, {}));
      losses.push_back(sums[kernels::loss::kNll]);
    }
    return losses;
  }

 private:
  const data::Examples& examples_;
  model_files::PlanCache plans_;
  model_files::BatchUpload upload_;
  std::vector<data::BatchRows> batches_;
};

/// How far a model in 8 bits is from what it was in float32: by how much the log p of an example
/// differs, in the mean.
class Distance {
 public:
  /// `context` is of precision int8. The model has its own weights now.
  Distance(const Context& context, const LoadedModel& loaded, const data::Examples& examples)
      : context_(context), losses_(loaded, examples) {
    Context whole = context;
    whole.set_precision({});
    right_ = Losses(loaded, examples).measure(whole);
  }

  double measure() {
    const std::vector<double> losses = losses_.measure(context_);
    double sum = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) sum += std::abs(losses[i] - right_[i]);
    return sum / static_cast<double>(losses.size());
  }

 private:
  const Context& context_;
  Losses losses_;
  std::vector<double> right_;
};

}  // namespace

bool is_quantized(const model_files::ModelKind& kind, const layers::ParameterSpec& parameter) {
  if (parameter.shape.rank() != 2) return false;
  const layers::Role role = parameter.initializer.role;
  if (role == layers::Role::kWeight || role == layers::Role::kRecurrentWeight) return true;
  const auto words = kind.word_parameters;
  return std::any_of(words.begin(), words.end(), [&](const model_files::WordParameter& word) {
    return word.name == parameter.name && parameter.name.ends_with("embedding.weight");
  });
}

Calibration calibrate(const Context& context, const LoadedModel& loaded,
                      const data::Examples& examples) {
  SLUICE_CHECK(context.precision().int8, "calibration takes a context of precision int8");
  const layers::Parameters& parameters = loaded.model->parameters();
  const auto& specs = parameters.specs();
  Calibration found{std::vector<double>(specs.size(), 1)};
  std::vector<std::vector<float>> originals;
  const auto set = [&](ParameterId id, double clip) {
    parameters.upload<float>(context, id, through_int8(specs[id], originals[id], clip));
  };
  Distance distance(context, loaded, examples);
  for (ParameterId id = 0; id < specs.size(); ++id) {
    originals.push_back(parameters.download<float>(context, id));
    if (is_quantized(*loaded.kind, specs[id])) set(id, 1);
  }
  found.before = found.after = distance.measure();
  for (ParameterId id = 0; id < specs.size(); ++id) {
    if (!is_quantized(*loaded.kind, specs[id])) continue;
    for (const double clip : kClips) {
      set(id, clip);
      const double now = distance.measure();
      if (!(now < found.after * (1 - kBetter))) continue;
      found.after = now;
      found.clips[id] = clip;
    }
    set(id, found.clips[id]);
  }
  for (ParameterId id = 0; id < specs.size(); ++id) {
    parameters.upload<float>(context, id, originals[id]);
  }
  return found;
}

io::Container quantized_container(const Context& context, const LoadedModel& loaded, DType dtype,
                                  const std::vector<double>& clips) {
  io::Container container =
      model_files::model_container(context, *loaded.model, loaded.tokenizers, loaded.run);
  io::TensorTable whole = std::exchange(container.tensors, {});
  const auto& specs = loaded.model->parameters().specs();
  SLUICE_ASSERT(clips.empty() || clips.size() == specs.size());
  for (ParameterId id = 0; id < specs.size(); ++id) {
    const layers::ParameterSpec& spec = specs[id];
    model_files::add_stored(
        container, spec.name, spec.shape, whole.find(spec.name)->values<float>(),
        is_quantized(*loaded.kind, spec) ? dtype : DType::kFloat32, clips.empty() ? 1 : clips[id]);
  }
  return container;
}

TrainConfig config_to_read(const LoadedModel& loaded, const std::string& data,
                           const std::string& targets, const std::string& resets) {
  const Files& files = files_of(loaded);
  SLUICE_CHECK(resets.empty() || files.kind == "features",
               "a model of kind {} takes no resets; leave '{}' out", files.kind, resets);
  SLUICE_CHECK(targets.empty() || takes_targets(loaded),
               "a model of kind {} is judged by one file; leave '{}' out", files.kind, targets);
  SLUICE_CHECK(
      !targets.empty() || files.kind != "language_model" || !takes_targets(loaded),
      "the model's texts begin from vectors of features: give the file of those of '{}' as "
      "--targets",
      data);
  SLUICE_CHECK(!targets.empty() || files.kind != "features",
               "a model on features is measured on its targets: give those of '{}' as "
               "--targets",
               data);
  TrainConfig config = run_config(loaded);
  const DataConfig before = std::exchange(config.data, {});
  config.data.token_column = before.token_column;
  config.data.tag_column = before.tag_column;
  config.data.label_scheme = before.label_scheme;
  config.data.text_column = before.text_column;
  config.data.label_column = before.label_column;
  config.initial = {};
  config.loop.bptt = 0;  // states that batches carry are a run's own
  if (targets.empty() && files.kind == "seq2seq") {
    config.data.validation_tsv = data;
    return config;
  }
  config.data.*files.validation = data;
  if (!targets.empty()) config.data.*files.validation_targets = targets;
  config.data.validation_resets = resets;
  return config;
}

TrainData read_to_judge(const LoadedModel& loaded, const TrainConfig& config) {
  const Task& task = task_of(loaded);
  TrainData data = task.read_validation(config, loaded.tokenizers);
  task.require_widths(config, *loaded.model, data);
  return data;
}

data::BatchOptions batches_to_judge(const LoadedModel& loaded, const data::Examples& examples) {
  const LoopConfig loop = run_config(loaded).loop;
  return data::with_room_for(examples.lengths(), {loop.max_tokens, loop.max_rows, loop.pool});
}

std::string_view usual_metric(const LoadedModel& loaded) {
  // Frames that have labels are right or wrong.
  if (loaded.kind->name == "features" && loaded.tokenizers.labels) return "accuracy";
  return files_of(loaded).metric;
}

}  // namespace sluice::training
