#include "sluice/classifier.h"

#include <algorithm>
#include <cmath>

#include "api/kept_plans.h"
#include "api/loaded_model.h"
#include "api/part_stream.h"
#include "api/recording.h"
#include "api/text_segmentation.h"
#include "api/tokenize.h"
#include "base/check.h"
#include "data/labelled_corpus.h"
#include "models/classifier.h"
#include "models/stack_training.h"
#include "runtime/threads.h"
#include "training/checkpoint.h"

namespace sluice {
namespace {

/// Of log-probabilities.
Classified classified(std::span<const float> answer) {
  Classified result;
  result.label = static_cast<std::size_t>(std::ranges::max_element(answer) - answer.begin());
  for (const float value : answer) {
    result.probabilities.push_back(std::exp(static_cast<double>(value)));
  }
  return result;
}

// Of one batch, padding counted.
constexpr std::int64_t kTokens = 8192, kRows = 256;

}  // namespace

struct Classifier::State {
  State(const std::string& path_in, const Placement& placement_in, const SegmenterChoice& choice)
      : path(path_in),
        placement(placement_in),
        device(runtime::open_device(placement.device)),
        context(api::context_on(*device, placement, path_in)),
        loaded(model_files::load_model(context, path_in)),
        kept(placement, *loaded.model),
        stream(context, model(), model().stack().architecture(), kept.store.weights(), "a text",
               model().config().refuse_parts()),
        segmentation(path_in, training::run_config(loaded), choice) {
    segmentation.require_source();
    runtime::use_threads(context, 0);
  }

  const models::Classifier& model() const {
    api::require_kind(path, loaded, models::ClassifierConfig::kKind);
    return dynamic_cast<const models::Classifier&>(*loaded.model);
  }

  std::string path;
  Placement placement;
  std::unique_ptr<runtime::Device> device;
  runtime::Context context;
  model_files::LoadedModel loaded;
  api::KeptPlans kept;
  api::PartStream stream;
  std::vector<float> so_far;  ///< log-probabilities after all parts; empty: no token yet
  api::TextSegmentation segmentation;
  api::Recording recording;
};

Classifier::Classifier(std::unique_ptr<State> state) : state_(std::move(state)) {}
Classifier::~Classifier() = default;
Classifier::Classifier(Classifier&&) noexcept = default;
Classifier& Classifier::operator=(Classifier&&) noexcept = default;

Classifier Classifier::load(const std::string& path, const Placement& placement,
                            const SegmenterChoice& segmenters) {
  return Classifier(std::make_unique<State>(path, placement, segmenters));
}

const std::vector<std::string>& Classifier::labels() const {
  return state_->loaded.tokenizers.labels->names();
}

std::pair<std::string, std::string> Classifier::columns() const {
  const training::DataConfig data = training::run_config(state_->loaded).data;
  return {data.text_column, data.label_column};
}

std::vector<Classified> Classifier::classify(std::span<const std::string> texts) {
  std::vector<Classified> results(texts.size());
  if (texts.empty()) return results;
  data::LabelledCorpus corpus;
  for (const std::string& text : state_->segmentation.source(texts)) {
    try {
      corpus.source.push_back(state_->loaded.tokenizers.source->encode(text));
    } catch (const Error& error) {
      base::fail(error.code(), "text {}: {}", corpus.source.size() + 1, error.what());
    }
  }
  api::warn_of_unknown(state_->context.warnings(), corpus.source,
                       *state_->loaded.tokenizers.source);
  model_files::PlanCache& plans = state_->kept.batches;
  const std::size_t classes = labels().size();
  state_->kept.each_batch(
      state_->context, corpus, kTokens, kRows,
      [&](const data::Batch& host, const models::Batch& batch) {
        auto& plan =
            dynamic_cast<models::StackTraining&>(plans.plan(state_->context, batch.extent, false));
        plan.evaluate(state_->context, plans.arena(), batch, {});
        const auto answers = state_->context.download<float>(plan.answers(plans.arena()));
        for (std::size_t r = 0; r < host.global_row.size(); ++r) {
          results[static_cast<std::size_t>(host.global_row[r])] =
              classified(std::span(answers).subspan(r * classes, classes));
        }
      });
  return results;
}

std::string Classifier::refuse_parts() const { return state_->stream.refusal(); }

Classified Classifier::classify_part(const std::string& text) {
  state_->stream.require_parts();
  const std::vector<std::string> segmented = state_->segmentation.source({&text, 1});
  const data::Tokenizer& tokenizer = *state_->loaded.tokenizers.source;
  const auto tokens = tokenizer.encode(segmented.front());
  api::warn_of_unknown(state_->context.warnings(), {tokens}, tokenizer);
  state_->stream.run(tokens, [&](const runtime::Tensor& answer) {
    state_->so_far = state_->context.download<float>(answer);
  });
  if (state_->so_far.empty()) return classify({&text, 1}).front();
  return classified(state_->so_far);
}

void Classifier::begin_text() {
  state_->so_far.clear();
  state_->stream.begin();
}

void Classifier::save_state(const std::string& path) { state_->stream.save(path, state_->so_far); }

void Classifier::load_state(const std::string& path) {
  state_->so_far = state_->stream.load(path, labels().size());
}

std::string Classifier::state() { return state_->stream.bytes(state_->so_far); }

void Classifier::set_state(std::string_view bytes) {
  state_->so_far = state_->stream.set_bytes(bytes, labels().size());
}

ModelInfo Classifier::info() const {
  return api::model_info(state_->context, state_->path, state_->loaded);
}

PlanCacheUse Classifier::plan_cache() const { return state_->kept.use(); }

void Classifier::clear_plan_cache() { state_->kept.store.clear(); }

void Classifier::begin_profile(const ProfileRequest& request) {
  state_->recording.begin(state_->context, request);
}

void Classifier::end_profile() { state_->recording.finish(); }

}  // namespace sluice
