#include "sluice/sequence_model.h"

#include <algorithm>

#include "api/loaded_model.h"
#include "api/sequence_decoder.h"
#include "data/batches.h"
#include "data/corpus.h"
#include "decoding/attention_view.h"
#include "models/seq2seq_training.h"
#include "profiling/session.h"
#include "training/batch_upload.h"
#include "training/plan_cache.h"
#include "training/threads.h"

namespace sluice {

namespace {

// Tokens of one batch of pairs to score, padding counted.
constexpr std::int64_t kScoreTokens = 8192;
// Few inputs are one batch, so the first counts, though it is slower.
constexpr profiling::StepRange kProfiledBatches{1, 5};

}  // namespace

struct SequenceModel::State {
  State(const std::string& path_in, const Placement& placement)
      : path(path_in),
        device(runtime::open_device(placement.device)),
        context(api::context_on(*device, placement)),
        loaded(training::load_model(context, path_in)) {
    api::require_kind(path, loaded, models::Seq2SeqConfig::kKind);
    training::use_threads(context, 0);
  }

  std::string path;
  std::unique_ptr<runtime::Device> device;
  runtime::Context context;
  training::LoadedModel loaded;
};

SequenceModel::SequenceModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
SequenceModel::~SequenceModel() = default;
SequenceModel::SequenceModel(SequenceModel&&) noexcept = default;
SequenceModel& SequenceModel::operator=(SequenceModel&&) noexcept = default;

SequenceModel SequenceModel::load(const std::string& path, const Placement& placement) {
  return SequenceModel(std::make_unique<State>(path, placement));
}

std::vector<Decoded> SequenceModel::decode(std::span<const std::string> inputs,
                                           const DecodeOptions& options) {
  State& state = *state_;
  api::SequenceDecoder decoder(state.context, state.loaded, options);
  profiling::Session profile(options.profile, profiling::print);
  profile.attach(state.context, kProfiledBatches);
  std::vector<Decoded> results = decoder.decode(inputs);
  profile.finish();
  return results;
}

std::vector<Scored> SequenceModel::score(
    std::span<const std::pair<std::string, std::string>> pairs) {
  State& state = *state_;
  std::vector<std::string> sources, targets;
  for (const auto& [source, target] : pairs) {
    sources.push_back(source);
    targets.push_back(target);
  }
  const data::PairCorpus corpus{api::tokenize(sources, *state.loaded.tokenizers.source),
                                api::tokenize(targets, *state.loaded.tokenizers.target)};
  std::vector<Scored> results(pairs.size());
  if (pairs.empty()) return results;

  const auto lengths = corpus.lengths();
  data::BatchOptions options{.max_tokens = kScoreTokens, .max_rows = 256, .pool = 1};
  for (const auto& length : lengths) {
    options.max_tokens = std::max(options.max_tokens, length.source + length.target);
  }
  training::PlanCache plans(*state.loaded.model);
  training::BatchUpload uploads;
  for (const data::BatchRows& rows : data::sorted_batches(lengths, options)) {
    const data::Batch pair_batch = corpus.assemble(rows);
    const models::Batch batch = uploads.upload(state.context, pair_batch);
    auto& plan =
        dynamic_cast<models::Seq2SeqTraining&>(plans.plan(state.context, batch.extent, false));
    const std::vector<double> scores =
        state.context.download<double>(plan.score(state.context, plans.arena(), batch));
    for (std::size_t n = 0; n < scores.size(); ++n) {
      results[static_cast<std::size_t>(rows[n % rows.size()])].log_probability += scores[n];
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      results[static_cast<std::size_t>(rows[r])].tokens = pair_batch.target_lengths[r];
    }
  }
  return results;
}

ModelInfo SequenceModel::info() const {
  return api::model_info(state_->context, state_->path, state_->loaded);
}

std::string attention_svg(const Decoded& decoded, std::size_t hypothesis) {
  SLUICE_CHECK(hypothesis < decoded.hypotheses.size(), "there is no hypothesis {}; there are {}",
               hypothesis, decoded.hypotheses.size());
  const Hypothesis& drawn = decoded.hypotheses[hypothesis];
  return decoding::attention_svg({decoded.source_pieces, drawn.pieces, drawn.attention});
}

}  // namespace sluice
