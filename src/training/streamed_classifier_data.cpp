#include <set>

#include "training/batch_limit.h"
#include "training/classifier_data.h"
#include "training/example_preparation.h"
#include "training/initial_weights.h"
#include "training/segmentation.h"
#include "training/stored_examples.h"
#include "training/streamed_data.h"

namespace sluice::training {
namespace {

FirstReading<LabelledText> read_once(const TrainConfig& config, std::set<std::string>* labels,
                                     const base::Watch& watch) {
  return read_first<LabelledText>(
      config, labels != nullptr, config.data.table,
      [&] { return LabelledTextReader(config.data, config.data.table); }, watch,
      [&](const LabelledText& text) { labels->insert(text.label); });
}

void add_validation(const TrainConfig& config, FirstReading<LabelledText>& first, TrainData& result,
                    const base::Watch& watch) {
  add_classifier_validation(
      config,
      holds_out(config.data) ? std::move(first.held_out) : read_classifier_validation(config.data),
      result, watch);
}

void segment(const TrainConfig& config, std::vector<LabelledText>& texts) {
  segment_field(config.data.source_segmenter, "texts to train on", texts, &LabelledText::text);
}

std::shared_ptr<const ExampleStore> store_of(const TrainConfig& config,
                                             const Tokenizers& tokenizers,
                                             const base::Watch& watch) {
  const std::int64_t most = config.data.max_source_tokens;
  const auto fill = [&](ExampleStoreWriter& writer, data::CorpusReport& report) {
    const auto write = [&](std::vector<LabelledText>& texts) {
      segment(config, texts);
      for (const LabelledText& text : texts) {
        const ExampleIds ids{tokenizers.source->encode(text.text),
                             {label_of(text, *tokenizers.labels)}};
        if (ids.source.empty()) {
          ++report.empty;
        } else if (most > 0 && std::ssize(ids.source) > most) {
          ++report.too_long;
        } else {
          require_in_batch(config, {std::ssize(ids.source), 1},
                           example_name("training", report.kept));
          ++report.kept;
          report.source_tokens += std::ssize(ids.source);
          writer.add(ids);
        }
      }
    };
    return for_each_chunk<LabelledText>(
        config.data, LabelledTextReader(config.data, config.data.table), watch, write);
  };
  return prepared_store(config, tokenizers, {config.data.table}, fill);
}

}  // namespace

TrainData stream_classifier_data(const TrainConfig& config, const Tokenizers* saved,
                                 const base::Watch& watch) {
  require_table(config.data);
  std::set<std::string> labels;
  FirstReading<LabelledText> first = read_once(config, saved == nullptr ? &labels : nullptr, watch);
  TrainData result;
  Tokenizers& tokenizers = result.tokenizers;
  tokenizers = saved != nullptr ? *saved : initial_tokenizers(config);
  if (saved == nullptr && labels.empty()) data::refuse_without_rows(config.data.table);
  if (!tokenizers.labels) {
    tokenizers.labels =
        std::make_shared<data::Labels>(std::vector<std::string>(labels.begin(), labels.end()));
  }
  if (!tokenizers.source) {
    segment(config, first.sample);
    tokenizers.source = make_classifier_vocabulary(config, first.sample, watch);
  }
  first.sample.clear();
  const auto store = store_of(config, tokenizers, watch);
  const data::CorpusReport& report = store->report();
  result.notes.push_back(classifier_summary("training", report.kept, tokenizers.labels->size(),
                                            report.source_tokens, report.too_long, report.empty));
  result.train = std::make_shared<StoredLabelledTexts>(store, tokenizers.source->size(),
                                                       tokenizers.labels->size());
  add_validation(config, first, result, watch);
  return result;
}

TrainData streamed_classifier_validation(const TrainConfig& config, const Tokenizers& tokenizers) {
  require_table(config.data);
  TrainData result;
  result.tokenizers = tokenizers;
  FirstReading<LabelledText> first = read_once(config, nullptr, {});
  add_validation(config, first, result, {});
  return result;
}

}  // namespace sluice::training
