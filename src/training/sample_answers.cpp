#include "training/sample_answers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "data/batches.h"
#include "decoding/sampling.h"
#include "model_files/batch_upload.h"
#include "model_files/plan_cache.h"
#include "models/language_model_decoding.h"
#include "models/stack_training.h"
#include "models/tagger_training.h"

namespace sluice::training {
namespace {

// Tokens of one batch, padding counted.
constexpr std::int64_t kBatchTokens = 8192;
// Texts that a language model writes are for a glance.
constexpr std::int64_t kPrefixTokens = 32, kWrittenTokens = 64;
// Of the values of frames, and of the runs of their classes.
constexpr std::size_t kShownFrames = 16, kShownRuns = 40;

using Ids = std::vector<std::int32_t>;
using Use = std::function<void(models::TrainingPlan&, const runtime::Arena&, const data::Batch&)>;

/// Evaluates the examples `chosen`, without dropout; `use` sees each batch after it.
void evaluate(const Context& context, const models::Model& model, const data::Examples& examples,
              std::span<const std::int64_t> chosen, const Use& use) {
  const std::vector<data::ExampleLengths> all = examples.lengths();
  std::vector<data::ExampleLengths> lengths;
  for (const std::int64_t example : chosen) {
    lengths.push_back(all[static_cast<std::size_t>(example)]);
  }
  const auto options =
      data::with_room_for(lengths, {.max_tokens = kBatchTokens, .max_rows = 256, .pool = 1});
  model_files::PlanCache plans(model);
  model_files::BatchUpload upload;
  for (data::BatchRows rows : data::sorted_batches(lengths, options)) {
    for (std::int64_t& row : rows) row = chosen[static_cast<std::size_t>(row)];
    const data::Batch host = examples.assemble(rows);
    const models::Batch batch = upload.upload(context, host);
    models::TrainingPlan& plan = plans.plan(context, batch.extent, false);
    plan.evaluate(context, plans.arena(), batch, {});
    use(plan, plans.arena(), host);
  }
}

/// The likeliest class of each of the examples `chosen`, by their number.
std::vector<std::int32_t> classes_of(const Context& context, const models::Model& model,
                                     std::int32_t classes, const data::LabelledCorpus& examples,
                                     std::span<const std::int64_t> chosen) {
  std::vector<std::int32_t> found(static_cast<std::size_t>(examples.size()));
  evaluate(context, model, examples, chosen,
           [&](models::TrainingPlan& plan, const runtime::Arena& arena, const data::Batch& batch) {
             const auto answers =
                 context.download<float>(dynamic_cast<models::StackTraining&>(plan).answers(arena));
             for (std::size_t row = 0; row < batch.global_row.size(); ++row) {
               const float* of_row = answers.data() + row * static_cast<std::size_t>(classes);
               found[static_cast<std::size_t>(batch.global_row[row])] =
                   static_cast<std::int32_t>(std::max_element(of_row, of_row + classes) - of_row);
             }
           });
  return found;
}

Ids source_of(const data::Batch& batch, std::int64_t row) {
  Ids ids;
  for (std::int64_t t = 0; t < batch.source_lengths[static_cast<std::size_t>(row)]; ++t) {
    ids.push_back(batch.source[static_cast<std::size_t>(t * batch.rows + row)]);
  }
  return ids;
}

/// The tokens of one row with its labels of [time, rows], as "Ann/B-person sees Rome/B-place"; O,
/// which most labels of entities are, goes without saying.
std::string labelled(const std::vector<std::int32_t>& labels, const data::Batch& batch,
                     std::int64_t row, const Tokenizers& tokenizers) {
  std::vector<std::string> text;
  for (const std::int32_t id : source_of(batch, row)) {
    const std::size_t at = text.size() * static_cast<std::size_t>(batch.rows);
    const std::string& label = tokenizers.labels->name(labels[at + static_cast<std::size_t>(row)]);
    text.push_back(tokenizers.source->decode({&id, 1}) + (label == "O" ? "" : "/" + label));
  }
  return fmt::format("{}", fmt::join(text, " "));
}

/// What a model on features says of one example: [steps, outputs].
using UseFrames = std::function<void(std::int64_t example, std::span<const float> answers)>;

/// Shows the answers to the examples `chosen`, in the order of batches.
void for_frames(const Context& context, const models::Model& model,
                const data::FrameCorpus& examples, std::span<const std::int64_t> chosen,
                const UseFrames& show) {
  evaluate(context, model, examples, chosen,
           [&](models::TrainingPlan& plan, const runtime::Arena& arena, const data::Batch& batch) {
             const runtime::Tensor answers =
                 dynamic_cast<models::StackTraining&>(plan).answers(arena);
             const std::vector<float> all = context.download<float>(answers);
             const auto outputs = answers.size(2), rows = answers.size(1);
             for (std::int64_t row = 0; row < batch.rows; ++row) {
               const auto r = static_cast<std::size_t>(row);
               std::vector<float> of_row;
               for (std::int64_t t = 0; t < batch.target_lengths[r]; ++t) {
                 const auto step = all.begin() + (t * rows + row) * outputs;
                 of_row.insert(of_row.end(), step, step + outputs);
               }
               show(batch.global_row[r], of_row);
             }
           });
}

std::vector<std::int32_t> largest(std::span<const float> answers, std::size_t classes) {
  std::vector<std::int32_t> found;
  for (; !answers.empty(); answers = answers.subspan(classes)) {
    const auto step = answers.first(classes);
    found.push_back(
        static_cast<std::int32_t>(std::max_element(step.begin(), step.end()) - step.begin()));
  }
  return found;
}

std::string runs_of(const std::vector<std::int32_t>& classes, const data::Labels& names) {
  if (classes.size() == 1) return names.name(classes[0]);
  std::vector<std::string> runs;
  for (auto at = classes.begin(); at != classes.end();) {
    const auto end = std::find_if(at, classes.end(), [&](std::int32_t c) { return c != *at; });
    runs.push_back(fmt::format("{} x{}", names.name(*at), end - at));
    at = end;
  }
  const bool cut = runs.size() > kShownRuns;
  if (cut) runs.resize(kShownRuns);
  return fmt::format("{}{}", fmt::join(runs, " "), cut ? " ..." : "");
}

std::string values_of(std::span<const float> values, std::size_t width) {
  std::string text;
  const std::size_t steps = values.size() / width;
  for (std::size_t t = 0; t < std::min(steps, kShownFrames); ++t) {
    text += fmt::format("{}{:.4g}", t == 0 ? "" : "; ",
                        fmt::join(values.subspan(t * width, width), " "));
  }
  return text + (steps > kShownFrames ? "; ..." : "");
}

/// The first half of a text, as far as the vocabulary knows its tokens.
Ids first_half(const Ids& text) {
  const auto end = text.begin() + std::min(std::ssize(text) / 2, kPrefixTokens);
  return Ids(text.begin(), std::find(text.begin(), end, data::kUnknownId));
}

}  // namespace

std::vector<std::int64_t> spread(std::int64_t size, std::int64_t count) {
  const std::int64_t kept = std::min(count, size);
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < kept; ++i) chosen.push_back(i * size / kept);
  return chosen;
}

std::vector<SampleAnswer> sample_labels(const Context& context, const models::Model& model,
                                        const Tokenizers& tokenizers,
                                        const data::TaggedExamples& examples, std::int64_t count) {
  const std::vector<std::int64_t> chosen = spread(examples.size(), count);
  std::vector<SampleAnswer> samples(chosen.size());
  evaluate(context, model, examples, chosen,
           [&](models::TrainingPlan& plan, const runtime::Arena& arena, const data::Batch& batch) {
             const auto found = context.download<std::int32_t>(
                 dynamic_cast<models::TaggerTraining&>(plan).labels(arena));
             for (std::int64_t row = 0; row < batch.rows; ++row) {
               const auto at =
                   std::ranges::find(chosen, batch.global_row[static_cast<std::size_t>(row)]);
               samples[static_cast<std::size_t>(at - chosen.begin())] = {
                   tokenizers.source->decode(source_of(batch, row)),
                   labelled(found, batch, row, tokenizers),
                   labelled(batch.target_out, batch, row, tokenizers)};
             }
           });
  return samples;
}

std::vector<SampleAnswer> sample_classes(const Context& context, const models::Model& model,
                                         const Tokenizers& tokenizers,
                                         const data::LabelledCorpus& examples, std::int64_t count) {
  const data::Labels& names = *tokenizers.labels;
  const std::vector<std::int64_t> chosen = spread(examples.size(), count);
  const auto found = classes_of(context, model, names.size(), examples, chosen);
  std::vector<SampleAnswer> samples;
  for (const std::int64_t example : chosen) {
    const auto at = static_cast<std::size_t>(example);
    samples.push_back({tokenizers.source->decode(examples.source[at]), names.name(found[at]),
                       names.name(examples.labels[at])});
  }
  return samples;
}

Confusion confusion_of(const Context& context, const models::Model& model,
                       const Tokenizers& tokenizers, const data::LabelledCorpus& examples) {
  const data::Labels& names = *tokenizers.labels;
  const auto found =
      classes_of(context, model, names.size(), examples, spread(examples.size(), examples.size()));
  Confusion confusion{names.names(), {}};
  const auto classes = static_cast<std::size_t>(names.size());
  confusion.counts.resize(classes * classes);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ++confusion.counts[static_cast<std::size_t>(examples.labels[i]) * classes +
                       static_cast<std::size_t>(found[i])];
  }
  return confusion;
}

std::vector<SampleAnswer> sample_frames(const Context& context, const models::Model& model,
                                        const Tokenizers& tokenizers,
                                        const data::FrameCorpus& examples, std::int64_t count) {
  const std::vector<std::int64_t> chosen = spread(examples.size(), count);
  std::vector<SampleAnswer> samples(chosen.size());
  for_frames(context, model, examples, chosen, [&](std::int64_t i, std::span<const float> found) {
    SampleAnswer& sample =
        samples[static_cast<std::size_t>(std::ranges::find(chosen, i) - chosen.begin())];
    const auto at = static_cast<std::size_t>(i);
    sample.input =
        fmt::format("{}: {} frames", examples.frames.names[at], examples.frames.length(i));
    if (tokenizers.labels) {
      const auto classes = static_cast<std::size_t>(tokenizers.labels->size());
      sample.answer = runs_of(largest(found, classes), *tokenizers.labels);
      sample.reference = runs_of(examples.labels[at], *tokenizers.labels);
    } else {
      const auto width = static_cast<std::size_t>(examples.values.width);
      sample.answer = values_of(found, width);
      sample.reference = values_of(examples.values.frames(i), width);
      sample.exact = false;
    }
  });
  return samples;
}

Confusion confusion_of(const Context& context, const models::Model& model,
                       const Tokenizers& tokenizers, const data::FrameCorpus& examples) {
  const data::Labels& names = *tokenizers.labels;
  const auto classes = static_cast<std::size_t>(names.size());
  Confusion confusion{names.names(), std::vector<std::int64_t>(classes * classes)};
  const auto all = spread(examples.size(), examples.size());
  for_frames(context, model, examples, all, [&](std::int64_t i, std::span<const float> answers) {
    const std::vector<std::int32_t> found = largest(answers, classes);
    const std::vector<std::int32_t>& right = examples.labels[static_cast<std::size_t>(i)];
    for (std::size_t t = 0; t < found.size(); ++t) {
      ++confusion.counts[static_cast<std::size_t>(right[t]) * classes +
                         static_cast<std::size_t>(found[t])];
    }
  });
  return confusion;
}

std::vector<SampleAnswer> sample_texts(const Context& context, const models::LanguageModel& model,
                                       const data::Tokenizer& tokenizer,
                                       const data::TextCorpus& texts, std::int64_t count) {
  std::vector<Ids> prefixes;
  std::vector<SampleAnswer> samples;
  const std::vector<std::int64_t> chosen = spread(texts.size(), count);
  for (const std::int64_t text : chosen) {
    const Ids& ids = texts.texts[static_cast<std::size_t>(text)];
    prefixes.push_back(first_half(ids));
    const auto rest = std::span(ids).subspan(prefixes.back().size());
    samples.push_back({tokenizer.decode(prefixes.back()), "", tokenizer.decode(rest)});
  }
  const std::int64_t inputs = std::ssize(prefixes);
  decoding::SamplingOptions options;
  options.force_end = false;
  options.max_length = options.max_length_offset = kPrefixTokens + kWrittenTokens;
  options.max_length_factor = 0;
  models::LanguageModelDecoding decoder(context, model, {inputs, inputs, 0});
  models::LanguageModelDecoding::Inputs from;
  from.count = inputs;
  const data::FeatureVectors vectors = texts.vectors.select(chosen);
  const runtime::Buffer features(context.device(), vectors.values.size() * sizeof(float));
  if (vectors.width > 0) {
    from.features = features.tensor(runtime::DType::kFloat32, {inputs, vectors.width});
    context.upload<float>(from.features, vectors.values);
  }
  decoder.encode(context, from);
  decoding::Sampling sampling(context, decoder, options,
                              {.inputs = inputs, .prefix_time = kPrefixTokens});
  const std::vector<std::int32_t> no_sources(prefixes.size());
  const auto found = decoding::fetch(context, sampling.run(context, no_sources, {}, prefixes));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto written = std::span(found[i].front().tokens).subspan(prefixes[i].size());
    samples[i].answer = tokenizer.decode(written);
    samples[i].exact = false;
  }
  return samples;
}

}  // namespace sluice::training
