#include "training/key_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "metrics/bleu_tokens.h"
#include "training/config_keys.h"
#include "training/gate_bias.h"
#include "training/task.h"

namespace sluice::training {
namespace {

using Names = std::string_view[];

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Weights and what acts on them are float32.
constexpr double kLargest = std::numeric_limits<float>::max();
// Dropout counts steps in 32 bits.
constexpr double kMostSteps = std::numeric_limits<std::uint32_t>::max();
constexpr double kLargestWidth = 1 << 24;
constexpr double kMostLayers = 64;

constexpr Names kLabelSchemes{"as-is", "bio", "bioes"};
constexpr Names kTokenizers{"bpe", "unigram", "words", "word_shapes", "characters", "smiles"};
constexpr Names kNormalizations{"identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"};
constexpr Names kCells{"lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu"};
constexpr Names kInitializers{"uniform", "xavier_uniform", "xavier_normal", "orthogonal"};
constexpr Names kAttentions{"additive", "multiplicative", "none"};
constexpr Names kTies{"none", "decoder", "all"};
constexpr Names kPoolings{"auto", "last", "mean", "max", "attention", "none"};
constexpr Names kTargets{"values", "classes"};
constexpr Names kOutputs{"crf", "softmax"};
constexpr Names kOptimizers{"adam", "sgd"};
constexpr Names kSchedules{"constant", "plateau", "inverse_sqrt", "cosine", "step"};
constexpr Names kSamplings{"none", "linear", "exponential", "inverse_sigmoid"};
constexpr Names kModes{"sync", "async", "average"};
constexpr Names kExchanges{"float32", "bfloat16"};
constexpr Names kStaticShapes{"auto", "on", "off"};
constexpr Names kPrecisions{"float32", "tf32", "bfloat16", "float16"};

constexpr KeyLimits one_of(std::string_view name, std::span<const std::string_view> choices) {
  return {name, choices};
}
constexpr KeyLimits at_least(std::string_view name, double least) {
  return {name, {}, least, kInfinity};
}
constexpr KeyLimits from_to(std::string_view name, double least, double most) {
  return {name, {}, least, most};
}
/// `least` itself is allowed, `most` is not.
constexpr KeyLimits below(std::string_view name, double least, double most) {
  return {name, {}, least, most, true, false};
}
constexpr KeyLimits rate(std::string_view name) { return below(name, 0, 1); }

const KeyLimits kLimits[] = {
    one_of("data.label_scheme", kLabelSchemes),
    at_least("data.hold_out_run", 0),
    at_least("data.hold_out_every", 0),
    at_least("data.hold_out_fold", 0),
    at_least("data.max_source_tokens", 0),
    at_least("data.max_target_tokens", 0),
    at_least("data.stream_vocabulary_lines", 1),

    one_of("tokenizer.kind", kTokenizers),
    at_least("tokenizer.source_vocabulary", 5),
    at_least("tokenizer.target_vocabulary", 5),
    at_least("tokenizer.min_count", 1),
    {"tokenizer.character_coverage", {}, 0, 1, false, true},
    one_of("tokenizer.normalization", kNormalizations),

    one_of("model.cell", kCells),
    one_of("model.initializer", kInitializers),
    one_of("model.recurrent_initializer", kInitializers),
    from_to("model.forget_bias", -kMostGateBias, kMostGateBias),
    from_to("model.embedding", 1, kLargestWidth),
    from_to("model.hidden", 1, kLargestWidth),
    from_to("model.encoder_layers", 1, kMostLayers),
    from_to("model.decoder_layers", 1, kMostLayers),
    from_to("model.layers", 1, kMostLayers),
    one_of("model.attention", kAttentions),
    one_of("model.tie_embeddings", kTies),
    one_of("model.pooling", kPoolings),
    one_of("model.target", kTargets),
    one_of("model.output", kOutputs),
    rate("model.dropout"),
    rate("model.encoder_zoneout_h"),
    rate("model.encoder_zoneout_c"),
    rate("model.encoder_recurrent_dropout"),
    rate("model.zoneout_h"),
    rate("model.zoneout_c"),
    rate("model.recurrent_dropout"),

    one_of("training.optimizer", kOptimizers),
    rate("training.beta1"),
    rate("training.beta2"),
    rate("training.momentum"),
    rate("training.epsilon"),
    from_to("training.weight_decay", 0, kLargest),
    from_to("training.clip_norm", 0, kLargest),
    // Nearer to one, float32 would lose what a step adds.
    below("training.ema_decay", 0, 0.999999),
    one_of("training.schedule", kSchedules),
    from_to("training.learning_rate", 0, kLargest),
    from_to("training.min_learning_rate", 0, kLargest),
    at_least("training.warmup_steps", 0),
    rate("training.plateau_factor"),
    at_least("training.plateau_patience", 1),
    rate("training.decay_factor"),
    at_least("training.decay_steps", 0),
    rate("training.label_smoothing"),
    one_of("training.scheduled_sampling", kSamplings),
    at_least("training.sampling_steps", 0),
    from_to("training.sampling_max", 0, 1),
    at_least("training.bptt", 0),
    at_least("training.max_tokens", 1),
    at_least("training.max_rows", 1),
    at_least("training.accumulate", 1),
    at_least("training.pool", 1),
    at_least("training.max_epochs", 0),
    from_to("training.max_steps", 0, kMostSteps),
    at_least("training.seed", 0),
    at_least("training.validate_every", 0),
    at_least("training.patience", 0),
    at_least("training.checkpoint_every", 0),
    one_of("training.bleu_tokenizer", metrics::bleu_tokenizer_names()),

    at_least("output.log_every", 1),
    at_least("output.histogram_every", 0),
    at_least("output.attention_images", 0),

    one_of("distributed.mode", kModes),
    one_of("distributed.exchange", kExchanges),
    from_to("distributed.average_every", 1, 1 << 20),
    at_least("distributed.average_from", 0),
    at_least("distributed.max_staleness", 0),

    from_to("machine.threads", 0, 4096),
    one_of("machine.static_shapes", kStaticShapes),
    one_of("machine.precision", kPrecisions),
};

void check(const KeyLimits& limits, const std::string& value) {
  if (std::ranges::find(limits.choices, value) != limits.choices.end()) return;
  base::fail(ErrorCode::kInvalidArgument, "{} is '{}'; use one of: {}", limits.name, value,
             fmt::join(limits.choices, ", "));
}

template <typename Number>
void check(const KeyLimits& limits, Number value) {
  SLUICE_CHECK(limits.allows(static_cast<double>(value)), "{} is {}; it must be {}", limits.name,
               value, limits.range());
}

// Whole numbers without an exponent, others as short as they can be said.
std::string show(double value) {
  const bool whole = value == static_cast<double>(static_cast<std::int64_t>(value));
  return whole ? fmt::format("{}", static_cast<std::int64_t>(value)) : fmt::format("{}", value);
}

}  // namespace

bool KeyLimits::allows(double value) const {
  return (value > least || (least_allowed && value == least)) &&
         (value < most || (most_allowed && value == most));
}

std::string KeyLimits::range() const {
  const bool from = least > -kLargest, to = most < kLargest;
  std::string text;
  if (from) text = fmt::format("{} {}", least_allowed ? "at least" : "more than", show(least));
  if (to)
    text += fmt::format("{}{} {}", from ? " and " : "", most_allowed ? "at most" : "less than",
                        show(most));
  if (most == kLargest) text += from ? " and finite" : "finite";
  return text;
}

std::span<const KeyLimits> all_limits() { return kLimits; }

const KeyLimits* find_limits(std::string_view name) {
  const auto found = std::ranges::find(kLimits, name, &KeyLimits::name);
  return found == std::end(kLimits) ? nullptr : found;
}

std::vector<std::string_view> kinds_using(std::string_view key) {
  std::vector<std::string_view> kinds;
  for (const Task* task : tasks()) {
    const auto keys = task->keys();
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) kinds.push_back(task->kind());
  }
  // What no kind names is of all of them.
  if (kinds.size() == tasks().size()) kinds.clear();
  return kinds;
}

void check_limits(const TrainConfig& config) {
  TrainConfig copy = config;
  for (const KeyLimits& limits : kLimits) {
    const ConfigKey* key = find_key(limits.name);
    SLUICE_ASSERT(key != nullptr);
    std::visit([&](const auto* value) { check(limits, *value); }, key->target(copy));
  }
}

}  // namespace sluice::training
