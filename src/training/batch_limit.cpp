#include "training/batch_limit.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/counted.h"
#include "models/features_config.h"
#include "models/language_model_config.h"
#include "models/seq2seq_config.h"

namespace sluice::training {
namespace {

using base::counted;

bool fits(const TrainConfig& config, const data::ExampleLengths& lengths) {
  return config.loop.bptt > 0 || lengths.source + lengths.target <= config.loop.max_tokens;
}

/// What the example takes of a batch, in the words of its kind.
std::string size_of(const TrainConfig& config, const data::ExampleLengths& lengths) {
  const std::string& kind = config.model.kind;
  if (kind == models::LanguageModelConfig::kKind) {
    return fmt::format("{} with its end,", counted(lengths.target, "token"));
  }
  if (kind == models::Seq2SeqConfig::kKind) {
    return fmt::format("{} source and {} with its end, together", lengths.source,
                       counted(lengths.target, "target token"));
  }
  const char* step = kind == models::FeaturesConfig::kKind ? "frame" : "token";
  const char* target = kind == models::FeaturesConfig::kKind ? "target" : "label";
  return fmt::format("{} and {}, together", counted(lengths.source, step),
                     counted(lengths.target, target));
}

/// Keys above which examples are left out.
const char* limits_of(const TrainConfig& config) {
  const std::string& kind = config.model.kind;
  if (kind == models::LanguageModelConfig::kKind) return "data.max_target_tokens";
  if (kind == models::Seq2SeqConfig::kKind) return "data.max_source_tokens and max_target_tokens";
  return "data.max_source_tokens";
}

}  // namespace

void require_in_batch(const TrainConfig& config, const data::ExampleLengths& lengths,
                      std::string_view name) {
  SLUICE_CHECK(fits(config, lengths),
               "{} has {} more than a whole batch may hold (training.max_tokens = {}); raise "
               "training.max_tokens, or leave out long examples with {}",
               name, size_of(config, lengths), config.loop.max_tokens, limits_of(config));
}

std::string example_name(std::string_view part, std::int64_t index) {
  return fmt::format("{} example {}", part, index + 1);
}

void require_in_batches(const TrainConfig& config, const data::Examples& examples,
                        std::string_view part) {
  const auto lengths = examples.lengths();
  for (std::int64_t i = 0; i < examples.size(); ++i) {
    const data::ExampleLengths& own = lengths[static_cast<std::size_t>(i)];
    if (!fits(config, own)) require_in_batch(config, own, example_name(part, i));
  }
}

}  // namespace sluice::training
