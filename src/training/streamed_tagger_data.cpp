#include <algorithm>
#include <set>

#include "data/tagged_examples.h"
#include "training/batch_limit.h"
#include "training/example_preparation.h"
#include "training/initial_weights.h"
#include "training/stored_examples.h"
#include "training/streamed_data.h"
#include "training/tagger_data.h"

namespace sluice::training {
namespace {

using data::TaggedSentence;

FirstReading<TaggedSentence> read_once(const TrainConfig& config, std::set<std::string>* labels,
                                       const base::Watch& watch) {
  return read_first<TaggedSentence>(
      config, labels != nullptr, config.data.conll,
      [&] { return data::ConllReader(config.data.conll, conll_options(config.data)); }, watch,
      [&](const TaggedSentence& sentence) {
        labels->insert(sentence.labels.begin(), sentence.labels.end());
      });
}

void add_validation(const TrainConfig& config, const FirstReading<TaggedSentence>& first,
                    TrainData& result) {
  if (holds_out(config.data)) {
    add_tagger_validation(config, config.data.conll, first.held_out, result);
  } else {
    add_tagger_validation(config, config.data.validation_conll, read_tagger_validation(config.data),
                          result);
  }
}

std::shared_ptr<const ExampleStore> store_of(const TrainConfig& config,
                                             const Tokenizers& tokenizers,
                                             const base::Watch& watch) {
  const std::string& path = config.data.conll;
  const std::int64_t most = config.data.max_source_tokens;
  const auto fill = [&](ExampleStoreWriter& writer, data::CorpusReport& report) {
    const auto write = [&](const std::vector<TaggedSentence>& sentences) {
      for (const TaggedSentence& sentence : sentences) {
        ExampleIds ids;
        ids.target = data::encode_labels(sentence, *tokenizers.labels, path);
        if (most > 0 && std::ssize(sentence.tokens) > most) {
          ++report.too_long;
          continue;
        }
        ids.source = data::encode_tokens(sentence.tokens, *tokenizers.source);
        require_in_batch(config, {std::ssize(ids.source), std::ssize(ids.target)},
                         example_name("training", report.kept));
        ++report.kept;
        report.source_tokens += std::ssize(ids.source);
        report.source_unknown += std::ranges::count(ids.source, data::kUnknownId);
        writer.add(ids);
      }
    };
    return for_each_chunk<TaggedSentence>(
        config.data, data::ConllReader(path, conll_options(config.data)), watch, write);
  };
  return prepared_store(config, tokenizers, {path}, fill);
}

}  // namespace

TrainData stream_tagger_data(const TrainConfig& config, const Tokenizers* saved,
                             const base::Watch& watch) {
  require_conll(config.data);
  std::set<std::string> labels;
  FirstReading<TaggedSentence> first =
      read_once(config, saved == nullptr ? &labels : nullptr, watch);
  TrainData result;
  Tokenizers& tokenizers = result.tokenizers;
  tokenizers = saved != nullptr ? *saved : initial_tokenizers(config);
  if (saved == nullptr && labels.empty()) data::refuse_without_sentences(config.data.conll);
  if (!tokenizers.labels) {
    tokenizers.labels =
        std::make_shared<data::Labels>(std::vector<std::string>(labels.begin(), labels.end()));
  }
  if (!tokenizers.source) {
    tokenizers.source = make_tagger_vocabulary(config.tokenizer, first.sample, watch);
  }
  first.sample.clear();
  const auto store = store_of(config, tokenizers, watch);
  const data::CorpusReport& report = store->report();
  result.notes.push_back(tagger_summary("training", report.kept, report.source_tokens,
                                        report.source_unknown, report.too_long));
  result.train = std::make_shared<StoredSentences>(store, tokenizers.source->size(),
                                                   tokenizers.labels->size());
  add_validation(config, first, result);
  return result;
}

TrainData streamed_tagger_validation(const TrainConfig& config, const Tokenizers& tokenizers) {
  require_conll(config.data);
  TrainData result;
  result.tokenizers = tokenizers;
  add_validation(config, read_once(config, nullptr, {}), result);
  return result;
}

}  // namespace sluice::training
