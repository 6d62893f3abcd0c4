#include "bench/decode/beam_search_work.h"

#include "data/tokenizer.h"
#include "models/language_model.h"
#include "models/language_model_decoding.h"

namespace sluice::bench::decode {
namespace {

std::unique_ptr<models::LanguageModel> drawn_model(const runtime::Context& context,
                                                   const BeamShape& shape) {
  auto model = std::make_unique<models::LanguageModel>(shape.config());
  model->parameters().allocate(context, base::DType::kFloat32, false);
  model->parameters().initialize(context, shape.seed);
  return model;
}

decoding::SearchOptions options_of(const BeamShape& shape) {
  decoding::SearchOptions options;
  options.beam = options.nbest = shape.beam;
  // The last step allows nothing but the end.
  options.min_length = options.max_length = options.max_length_offset = shape.steps - 1;
  options.poll_every = shape.steps + 1;  // nothing ends before
  return options;
}

/// Inputs differ in the token behind bos.
std::vector<std::vector<std::int32_t>> prompts_of(const BeamShape& shape) {
  std::vector<std::vector<std::int32_t>> prompts;
  for (std::int64_t i = 0; i < shape.inputs; ++i) {
    const std::int64_t piece = i % (shape.vocabulary - data::kFirstPieceId);
    prompts.push_back({data::kBosId, static_cast<std::int32_t>(data::kFirstPieceId + piece)});
  }
  return prompts;
}

}  // namespace

struct BeamSearchWork::Content {
  Content(const runtime::Context& context_in, const BeamShape& shape)
      : context(context_in),
        prompts(prompts_of(shape)),
        source_lengths(prompts.size(), 0),
        model(drawn_model(context, shape)),
        decoding(context, *model, {shape.inputs, shape.inputs * shape.beam, 2}),
        search(context, decoding, options_of(shape), {shape.inputs, 0}) {}

  const runtime::Context& context;
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::int32_t> source_lengths;
  std::unique_ptr<models::LanguageModel> model;
  models::LanguageModelDecoding decoding;
  decoding::BeamSearch search;
  decoding::SearchResults results;
};

BeamSearchWork::BeamSearchWork(const runtime::Context& context, const BeamShape& shape)
    : content_(std::make_unique<Content>(context, shape)) {}
BeamSearchWork::~BeamSearchWork() = default;

void BeamSearchWork::run() {
  Content& c = *content_;
  models::LanguageModelDecoding::Inputs inputs;
  inputs.count = std::ssize(c.prompts);
  inputs.prompts = c.prompts;
  c.decoding.encode(c.context, inputs);
  c.results = c.search.run(c.context, c.source_lengths);
}

std::vector<std::vector<decoding::Hypothesis>> BeamSearchWork::found() const {
  return decoding::fetch(content_->context, content_->results);
}

std::int64_t BeamSearchWork::parameters() const {
  return content_->model->parameters().element_count();
}

}  // namespace sluice::bench::decode
