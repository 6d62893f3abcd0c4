#include "sluice/tagger.h"

#include "api/batch_size.h"
#include "api/kept_plans.h"
#include "api/loaded_model.h"
#include "api/part_stream.h"
#include "api/recording.h"
#include "api/tokenize.h"
#include "data/tagged_examples.h"
#include "models/tagger_training.h"
#include "profiling/session.h"
#include "runtime/span.h"
#include "runtime/threads.h"

namespace sluice {
namespace {

// Tokens of one batch, padding counted.
constexpr std::int64_t kBatchTokens = 8192;
constexpr std::int64_t kUsualBatch = 64;
// Few sentences are one batch, so the first counts, though it is slower.
constexpr profiling::StepRange kProfiledBatches{1, 5};

std::vector<Entity> entities_of(std::span<const std::string> labels) {
  std::vector<Entity> entities;
  for (data::LabelSpan& span : data::spans_of(labels)) {
    entities.push_back({std::move(span.type), span.begin, span.end});
  }
  return entities;
}

}  // namespace

struct Tagger::State {
  State(const std::string& path_in, const Placement& placement_in)
      : path(path_in),
        placement(placement_in),
        device(runtime::open_device(placement.device)),
        context(api::context_on(*device, placement, path_in)),
        loaded(model_files::load_model(context, path_in)),
        kept(placement, *loaded.model),
        stream(context, model(), model().stack().architecture(), kept.store.weights(), "a sentence",
               model().config().refuse_parts()) {
    runtime::use_threads(context, 0);
  }

  const models::Tagger& model() const {
    api::require_kind(path, loaded, models::TaggerConfig::kKind);
    return dynamic_cast<const models::Tagger&>(*loaded.model);
  }

  /// The labels of one batch's rows, into results[place[row]].
  void read_labels(const std::vector<std::int32_t>& found, const data::Batch& batch,
                   std::span<const std::size_t> place, std::span<TaggedSentence> results) const;

  std::string path;
  Placement placement;
  std::unique_ptr<runtime::Device> device;
  runtime::Context context;
  model_files::LoadedModel loaded;
  api::KeptPlans kept;
  api::PartStream stream;
  api::Recording recording;
};

void Tagger::State::read_labels(const std::vector<std::int32_t>& found, const data::Batch& batch,
                                std::span<const std::size_t> place,
                                std::span<TaggedSentence> results) const {
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const auto r = static_cast<std::size_t>(row);
    TaggedSentence& result = results[place[static_cast<std::size_t>(batch.global_row[r])]];
    for (std::int64_t t = 0; t < batch.source_lengths[r]; ++t) {
      const auto at = static_cast<std::size_t>(t * batch.rows + row);
      result.labels.push_back(loaded.tokenizers.labels->name(found[at]));
    }
    result.entities = entities_of(result.labels);
  }
}

Tagger::Tagger(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tagger::~Tagger() = default;
Tagger::Tagger(Tagger&&) noexcept = default;
Tagger& Tagger::operator=(Tagger&&) noexcept = default;

Tagger Tagger::load(const std::string& path, const Placement& placement) {
  return Tagger(std::make_unique<State>(path, placement));
}

std::vector<TaggedSentence> Tagger::tag(std::span<const std::vector<std::string>> sentences,
                                        const TagOptions& options) {
  const std::int64_t most_rows = api::batch_size(options.batch, kUsualBatch);
  State& state = *state_;
  profiling::Session profile(options.profile, profiling::print);
  profile.attach(state.context, kProfiledBatches);
  std::vector<TaggedSentence> results(sentences.size());
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<std::size_t> place;  // of each of `ids` among the sentences
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    results[i].tokens = sentences[i];
    if (sentences[i].empty()) continue;
    ids.push_back(api::tokenize_sentence(sentences[i], i, *state.loaded.tokenizers.source));
    place.push_back(i);
  }
  if (ids.empty()) return results;
  api::warn_of_unknown(state.context.warnings(), ids, *state.loaded.tokenizers.source);

  const data::TaggedExamples examples(std::move(ids));
  model_files::PlanCache& plans = state.kept.batches;
  state.kept.each_batch(
      state.context, examples, kBatchTokens, most_rows,
      [&](const data::Batch& host, const models::Batch& batch) {
        auto& plan =
            dynamic_cast<models::TaggerTraining&>(plans.plan(state.context, batch.extent, false));
        plan.evaluate(state.context, plans.arena(), batch, {});
        const auto found = state.context.download<std::int32_t>(plan.labels(plans.arena()));
        state.read_labels(found, host, place, results);
      });
  profile.finish();
  return results;
}

std::string Tagger::refuse_parts() const { return state_->stream.refusal(); }

TaggedSentence Tagger::tag_part(std::span<const std::string> tokens) {
  state_->stream.require_parts();
  TaggedSentence result;
  result.tokens.assign(tokens.begin(), tokens.end());
  const auto ids = api::tokenize_sentence(tokens, 0, *state_->loaded.tokenizers.source);
  api::warn_of_unknown(state_->context.warnings(), {ids}, *state_->loaded.tokenizers.source);
  state_->stream.run(ids, [&](const runtime::Tensor& found) {
    for (const std::int32_t label : state_->context.download<std::int32_t>(found)) {
      result.labels.push_back(state_->loaded.tokenizers.labels->name(label));
    }
  });
  result.entities = entities_of(result.labels);
  return result;
}

void Tagger::begin_sentence() { state_->stream.begin(); }

void Tagger::save_state(const std::string& path) { state_->stream.save(path); }

void Tagger::load_state(const std::string& path) { state_->stream.load(path); }

std::string Tagger::state() { return state_->stream.bytes(); }

void Tagger::set_state(std::string_view bytes) { state_->stream.set_bytes(bytes); }

const std::vector<std::string>& Tagger::labels() const {
  return state_->loaded.tokenizers.labels->names();
}

ModelInfo Tagger::info() const {
  return api::model_info(state_->context, state_->path, state_->loaded);
}

PlanCacheUse Tagger::plan_cache() const { return state_->kept.use(); }

void Tagger::clear_plan_cache() { state_->kept.store.clear(); }

void Tagger::begin_profile(const ProfileRequest& request) {
  state_->recording.begin(state_->context, request);
}

void Tagger::end_profile() { state_->recording.finish(); }

}  // namespace sluice
