#include "sluice/sequence_model.h"

#include "api/kept_plans.h"
#include "api/loaded_model.h"
#include "api/recording.h"
#include "api/scoring.h"
#include "api/sequence_decoder.h"
#include "api/text_segmentation.h"
#include "base/check.h"
#include "data/corpus.h"
#include "decoding/attention_view.h"
#include "models/seq2seq_config.h"
#include "profiling/session.h"
#include "runtime/threads.h"
#include "training/checkpoint.h"

namespace sluice {

namespace {

// Few inputs are one batch, so the first counts, though it is slower.
constexpr profiling::StepRange kProfiledBatches{1, 5};

}  // namespace

struct SequenceModel::State {
  State(const std::string& path_in, const Placement& placement_in, const SegmenterChoice& choice)
      : path(path_in),
        placement(placement_in),
        device(runtime::open_device(placement.device)),
        context(api::context_on(*device, placement, path_in)),
        loaded(model_files::load_model(context, path_in)),
        kept(placement, *loaded.model),
        segmentation(path_in, training::run_config(loaded), choice) {
    api::require_kind(path, loaded, models::Seq2SeqConfig::kKind);
    segmentation.require_source();
    runtime::use_threads(context, 0);
  }

  std::string path;
  Placement placement;
  std::unique_ptr<runtime::Device> device;
  runtime::Context context;
  model_files::LoadedModel loaded;
  api::KeptPlans kept;
  api::TextSegmentation segmentation;
  api::Recording recording;
};

SequenceModel::SequenceModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
SequenceModel::~SequenceModel() = default;
SequenceModel::SequenceModel(SequenceModel&&) noexcept = default;
SequenceModel& SequenceModel::operator=(SequenceModel&&) noexcept = default;

SequenceModel SequenceModel::load(const std::string& path, const Placement& placement,
                                  const SegmenterChoice& segmenters) {
  return SequenceModel(std::make_unique<State>(path, placement, segmenters));
}

std::vector<Decoded> SequenceModel::decode(std::span<const std::string> inputs,
                                           const DecodeOptions& options) {
  State& state = *state_;
  DecodeOptions own = options;
  if (!own.prefixes.empty()) own.prefixes = state.segmentation.target(own.prefixes);
  if (!own.banned.empty()) own.banned = state.segmentation.target(own.banned);
  for (auto& words : own.forced) {
    if (!words.empty()) words = state.segmentation.target(words);
  }
  api::SequenceDecoder decoder(state.context, state.loaded, state.kept, own);
  profiling::Session profile(options.profile, profiling::print);
  profile.attach(state.context, kProfiledBatches);
  std::vector<Decoded> results = decoder.decode(state.segmentation.source(inputs));
  profile.finish();
  return results;
}

std::vector<Scored> SequenceModel::score(
    std::span<const std::pair<std::string, std::string>> pairs) {
  std::vector<std::string> sources, targets;
  for (const auto& [source, target] : pairs) {
    sources.push_back(source);
    targets.push_back(target);
  }
  const model_files::LoadedModel& loaded = state_->loaded;
  const data::PairCorpus corpus{
      api::tokenize(state_->segmentation.source(sources), *loaded.tokenizers.source),
      api::tokenize(state_->segmentation.target(targets), *loaded.tokenizers.target)};
  api::warn_of_unknown(state_->context.warnings(), corpus.source, *loaded.tokenizers.source,
                       "source");
  api::warn_of_unknown(state_->context.warnings(), corpus.target, *loaded.tokenizers.target,
                       "target");
  return api::score(state_->context, state_->kept, corpus);
}

ModelInfo SequenceModel::info() const {
  return api::model_info(state_->context, state_->path, state_->loaded);
}

PlanCacheUse SequenceModel::plan_cache() const { return state_->kept.use(); }

void SequenceModel::clear_plan_cache() { state_->kept.store.clear(); }

void SequenceModel::begin_profile(const ProfileRequest& request) {
  state_->recording.begin(state_->context, request);
}

void SequenceModel::end_profile() { state_->recording.finish(); }

std::string attention_svg(const Decoded& decoded, std::size_t hypothesis) {
  SLUICE_CHECK(hypothesis < decoded.hypotheses.size(), "there is no hypothesis {}; there are {}",
               hypothesis, decoded.hypotheses.size());
  const Hypothesis& drawn = decoded.hypotheses[hypothesis];
  return decoding::attention_svg({decoded.source_pieces, drawn.pieces, drawn.attention});
}

}  // namespace sluice
