#include "sluice/feature_model.h"

#include <cmath>

#include "api/frame_input.h"
#include "api/kept_plans.h"
#include "api/loaded_model.h"
#include "api/part_stream.h"
#include "api/recording.h"
#include "base/check.h"
#include "base/counted.h"
#include "models/features.h"
#include "models/stack_training.h"
#include "runtime/threads.h"

namespace sluice {
namespace {

// Of one batch, padding counted.
constexpr std::int64_t kFrames = 32768, kRows = 256;

}  // namespace

struct FeatureModel::State {
  State(const std::string& path_in, const Placement& placement_in)
      : path(path_in),
        placement(placement_in),
        device(runtime::open_device(placement.device)),
        context(api::context_on(*device, placement, path_in)),
        loaded(model_files::load_model(context, path_in)),
        model(features_of(path_in, loaded)),
        kept(placement, *loaded.model),
        stream(context, model, model.stack().architecture(), kept.store.weights(), "a sequence",
               config().refuse_parts()) {
    runtime::use_threads(context, 0);
  }

  static const models::Features& features_of(const std::string& path,
                                             const model_files::LoadedModel& loaded) {
    api::require_kind(path, loaded, models::FeaturesConfig::kKind);
    return dynamic_cast<const models::Features&>(*loaded.model);
  }
  const models::FeaturesConfig& config() const { return model.config(); }
  /// Answers as people take them: probabilities of classes.
  void finish(std::span<float> answers) const {
    if (!config().has_classes()) return;
    for (float& answer : answers) answer = std::exp(answer);
  }

  std::string path;
  Placement placement;
  std::unique_ptr<runtime::Device> device;
  runtime::Context context;
  model_files::LoadedModel loaded;
  const models::Features& model;
  api::KeptPlans kept;
  api::PartStream stream;
  api::Recording recording;
};

FeatureModel::FeatureModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
FeatureModel::~FeatureModel() = default;
FeatureModel::FeatureModel(FeatureModel&&) noexcept = default;
FeatureModel& FeatureModel::operator=(FeatureModel&&) noexcept = default;

FeatureModel FeatureModel::load(const std::string& path, const Placement& placement) {
  return FeatureModel(std::make_unique<State>(path, placement));
}

std::int64_t FeatureModel::features() const { return state_->config().features; }
std::int64_t FeatureModel::outputs() const { return state_->config().outputs; }
bool FeatureModel::answers_each_frame() const { return state_->config().is_per_frame(); }

const std::vector<std::string>& FeatureModel::labels() const {
  static const std::vector<std::string> none;
  const auto& labels = state_->loaded.tokenizers.labels;
  return labels ? labels->names() : none;
}

std::vector<Frames> FeatureModel::run(std::span<const Frames> sequences) {
  std::vector<Frames> results(sequences.size());
  for (Frames& result : results) result.width = outputs();
  if (sequences.empty()) return results;
  const data::FrameCorpus corpus = api::frame_corpus(state_->path, state_->config(), sequences);
  model_files::PlanCache& plans = state_->kept.batches;
  const auto width = static_cast<std::size_t>(outputs());
  state_->kept.each_batch(
      state_->context, corpus, kFrames, kRows,
      [&](const data::Batch& host, const models::Batch& batch) {
        auto& plan =
            dynamic_cast<models::StackTraining&>(plans.plan(state_->context, batch.extent, false));
        plan.evaluate(state_->context, plans.arena(), batch, {});
        auto answers = state_->context.download<float>(plan.answers(plans.arena()));
        state_->finish(answers);
        const std::size_t rows = host.global_row.size();
        for (std::size_t r = 0; r < rows; ++r) {
          std::vector<float>& values = results[static_cast<std::size_t>(host.global_row[r])].values;
          const std::int32_t steps = answers_each_frame() ? host.source_lengths[r] : 1;
          for (std::size_t t = 0; t < static_cast<std::size_t>(steps); ++t) {
            const auto* from = answers.data() + (t * rows + r) * width;
            values.insert(values.end(), from, from + width);
          }
        }
      });
  return results;
}

std::string FeatureModel::refuse_parts() const { return state_->stream.refusal(); }

Frames FeatureModel::run_part(const Frames& frames) {
  state_->stream.require_parts();
  api::require_frames(state_->path, state_->config(), frames, "the part");
  Frames result;
  result.width = outputs();
  const std::span<const float> values(frames.values);
  result.values.resize(static_cast<std::size_t>(frames.time() * result.width));
  const auto width = static_cast<std::size_t>(features()),
             out = static_cast<std::size_t>(outputs());
  const auto run_frames = [&](std::size_t first, std::size_t end) {
    run_part(values.subspan(first * width, (end - first) * width),
             std::span(result.values).subspan(first * out, (end - first) * out));
  };
  // To one sequence of one direction, a reset is what the beginning of another is.
  std::size_t first = 0;
  for (std::size_t t = 0; t < frames.resets.size(); ++t) {
    if (frames.resets[t] == 0) continue;
    run_frames(first, t);
    state_->stream.begin();
    first = t;
  }
  run_frames(first, values.size() / width);
  return result;
}

void FeatureModel::run_part(std::span<const float> frames, std::span<float> answers) {
  const auto width = static_cast<std::size_t>(features());
  const std::size_t time = frames.size() / width;
  SLUICE_CHECK(time * width == frames.size(), "{} are no whole number of frames of {}",
               base::counted(frames.size(), "value"), base::counted(features(), "feature"));
  SLUICE_CHECK(answers.size() == time * static_cast<std::size_t>(outputs()),
               "{} for answers to {}; {} of {} takes {}", base::counted(answers.size(), "value"),
               base::counted(time, "frame"), time, base::counted(outputs(), "output"),
               time * static_cast<std::size_t>(outputs()));
  data::require_finite(frames, features(), "the part", "features", ErrorCode::kInvalidArgument);
  state_->stream.run(frames, features(), [this, &answers](const runtime::Tensor& found) {
    const auto part = answers.first(static_cast<std::size_t>(found.element_count()));
    runtime::CopyKind kind = runtime::CopyKind::kDeviceToHost;
    state_->context.stream().copy(part.data(), found.data(), part.size_bytes(), kind);
    state_->context.synchronize();
    state_->finish(part);
    answers = answers.subspan(part.size());
  });
}

void FeatureModel::begin_sequence() { state_->stream.begin(); }

void FeatureModel::save_state(const std::string& path) { state_->stream.save(path); }

void FeatureModel::load_state(const std::string& path) { state_->stream.load(path); }

std::string FeatureModel::state() { return state_->stream.bytes(); }

void FeatureModel::set_state(std::string_view bytes) { state_->stream.set_bytes(bytes); }

ModelInfo FeatureModel::info() const {
  return api::model_info(state_->context, state_->path, state_->loaded);
}

PlanCacheUse FeatureModel::plan_cache() const { return state_->kept.use(); }

void FeatureModel::clear_plan_cache() { state_->kept.store.clear(); }

void FeatureModel::begin_profile(const ProfileRequest& request) {
  state_->recording.begin(state_->context, request);
}

void FeatureModel::end_profile() { state_->recording.finish(); }

}  // namespace sluice
