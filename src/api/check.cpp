#include "sluice/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "api/check_inputs.h"
#include "api/kept_plans.h"
#include "api/loaded_model.h"
#include "api/sequence_decoder.h"
#include "api/text_segmentation.h"
#include "base/check.h"
#include "base/suggest.h"
#include "checking/comparison.h"
#include "checking/reference_file.h"
#include "kernels/recurrent/named_choice.h"
#include "runtime/threads.h"
#include "training/checkpoint.h"

namespace sluice {
namespace {

using checking::LayerValues;

// The bounds of a batch, with padding. The outputs of all layers for a batch are in memory for both
// sides: with a vocabulary's logits some 100 MiB.
constexpr std::int64_t kTokens = 1024, kRows = 64;

std::string_view name_of(const runtime::Precision& precision) {
  if (precision.int8) return "int8";
  return precision.tf32 ? "tf32" : base::name_of(precision.storage);
}

// Elsewhere a CPU takes tf32 for float32. Here it would be compared with itself.
void require_own_precision(const runtime::Context& context) {
  SLUICE_CHECK(!context.precision().tf32 || !context.device().runs_host_kernels(),
               "precision tf32 is a GPU's, not a CPU's, which computes in float32 instead; use "
               "float32");
}

/// A model where it runs.
class Side {
 public:
  Side(const std::string& path, const CheckSide& chosen)
      : chosen_(chosen),
        device_(runtime::open_device(chosen_.placement.device)),
        context_(api::context_on(*device_, chosen_.placement, path)),
        loaded_(model_files::load_model(context_, path)),
        kept_(chosen_.placement, *loaded_.model) {
    if (chosen_.implementation != "auto") {
      tuning_.record(kernels::recurrent::kEveryStack, chosen_.implementation);
      context_.set_tuning(&tuning_);
    }
    require_own_precision(context_);
    runtime::use_threads(context_, 0);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  const CheckSide& chosen() const { return chosen_; }
  const runtime::Context& context() const { return context_; }
  const model_files::LoadedModel& loaded() const { return loaded_; }
  api::KeptPlans& kept() { return kept_; }
  checking::Rounding rounding() const { return checking::rounding_of(context_.precision()); }
  std::string precision() const { return std::string(name_of(context_.precision())); }
  /// Once it has run: "float32 on cpu, stack=avx512".
  std::string describe() const {
    return fmt::format("{} on {}, {}", precision(), context_.device().name(),
                       fmt::join(kept_.batches.implementations(), "; "));
  }

  /// The outputs of its layers for a batch on its device; valid until the next run.
  const std::vector<LayerValues>& run(const models::Batch& batch) {
    recorder_.clear();
    models::TrainingPlan& plan = kept_.batches.plan(context_, batch.extent, false);
    models::Pass pass;
    pass.probe = &recorder_;
    plan.evaluate(context_, kept_.batches.arena(), batch, pass);
    context_.synchronize();
    return recorder_.layers();
  }
  /// The same as a call of its own, for a batch that another side has assembled.
  const std::vector<LayerValues>& call(const data::Batch& batch) {
    kept_.call([&] { kept_.store.with_room([&] { run(kept_.uploads.upload(context_, batch)); }); });
    return recorder_.layers();
  }
  const LayerValues* find(std::string_view layer) const { return recorder_.find(layer); }

 private:
  CheckSide chosen_;
  std::unique_ptr<runtime::Device> device_;
  runtime::Tuning tuning_;
  runtime::Context context_;
  model_files::LoadedModel loaded_;
  api::KeptPlans kept_;
  checking::Recorder recorder_;
};

/// Runs the side on all examples and calls use(batch, outputs of its layers) for each batch.
void for_batches(
    Side& side, const data::Examples& examples,
    const std::function<void(const data::Batch&, const std::vector<LayerValues>&)>& use) {
  side.kept().each_batch(
      side.context(), examples, kTokens, kRows,
      [&](const data::Batch& host, const models::Batch& batch) { use(host, side.run(batch)); });
}

void note(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

void require_tolerance(double tolerance) {
  SLUICE_CHECK(tolerance >= 0 && std::isfinite(tolerance),
               "tolerance is {}; it must be a positive number, or 0 for one that follows from the "
               "precisions",
               tolerance);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

}  // namespace

CheckSide other_side(const CheckSide& side, std::string_view words) {
  static constexpr std::array<std::string_view, 3> kKeys{"device", "precision", "implementation"};
  CheckSide other = side;
  std::vector<std::string_view> given;
  for (std::size_t begin = 0; begin <= words.size();) {
    const std::size_t end = std::min(words.find(',', begin), words.size());
    const std::string_view word = words.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = word.find('=');
    const std::string_view key = trimmed(word.substr(0, equals));
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : trimmed(word.substr(equals + 1));
    SLUICE_CHECK(std::ranges::find(kKeys, key) != kKeys.end(),
                 "'{}' is no side to compare with: give device=, precision= or implementation= "
                 "with a value, several with commas between them{}",
                 words, base::did_you_mean(key, kKeys));
    SLUICE_CHECK(!value.empty(), "{}= has no value in '{}'; write one after the sign", key, words);
    SLUICE_CHECK(std::ranges::find(given, key) == given.end(),
                 "{}= stands twice in '{}'; leave one out", key, words);
    given.push_back(key);
    if (key == "device") other.placement.device = value;
    if (key == "precision") other.placement.precision = value;
    if (key == "implementation") other.implementation = value;
  }
  return other;
}

const LayerCheck* CheckReport::first_to_differ() const {
  const auto found = std::ranges::find_if(layers, &LayerCheck::differs);
  return found == layers.end() ? nullptr : &*found;
}

struct Checker::State {
  State(const std::string& path_in, const CheckSide& chosen, const SegmenterChoice& choice)
      : path(path_in),
        kind(kind_of_model(path_in)),
        side(path_in, chosen),
        segmentation(path_in, training::run_config(side.loaded()), choice) {}

  std::unique_ptr<data::Examples> examples(const CheckInputs& inputs) {
    const auto answer = [&](const std::vector<std::string>& texts) {
      const DecodeOptions greedy{.beam = 1};
      std::vector<std::string> answers;
      api::SequenceDecoder decoder(side.context(), side.loaded(), side.kept(), greedy);
      for (const Decoded& decoded : decoder.decode(texts)) {
        answers.push_back(decoded.hypotheses.empty() ? "" : decoded.hypotheses.front().text);
      }
      return answers;
    };
    return api::examples_of(side.context(), path, side.loaded(), segmentation, inputs, answer);
  }

  std::string path;
  std::string kind;
  Side side;
  api::TextSegmentation segmentation;
};

Checker::Checker(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checker::~Checker() = default;
Checker::Checker(Checker&&) noexcept = default;
Checker& Checker::operator=(Checker&&) noexcept = default;

Checker Checker::load(const std::string& path, const CheckSide& side,
                      const SegmenterChoice& segmenters) {
  return Checker(std::make_unique<State>(path, side, segmenters));
}

const std::string& Checker::kind() const { return state_->kind; }

CheckReport Checker::compare(const CheckSide& reference, const CheckInputs& inputs,
                             double tolerance) {
  require_tolerance(tolerance);
  Side& side = state_->side;
  Side other(state_->path, reference);
  const std::unique_ptr<data::Examples> examples = state_->examples(inputs);
  checking::Comparison comparison([&](const LayerValues& layer) {
    if (tolerance > 0) return tolerance;
    return checking::tolerance_of(side.rounding(), other.rounding(), layer.sums);
  });
  CheckReport report;
  report.inputs = examples->size();
  for_batches(side, *examples, [&](const data::Batch& batch, const auto& layers) {
    for (const LayerValues& layer : other.call(batch)) note(report.not_compared, layer.name);
    for (const LayerValues& layer : layers) {
      note(report.not_compared, layer.name);
      const LayerValues* found = other.find(layer.name);
      if (found == nullptr) continue;
      comparison.add(layer, *found, batch.global_row);
      std::erase(report.not_compared, layer.name);
    }
  });
  report.layers = comparison.layers();
  report.side = side.describe();
  report.reference = other.describe();
  return report;
}

CheckReport Checker::compare(const std::string& reference_file, const CheckInputs& inputs,
                             double tolerance) {
  require_tolerance(tolerance);
  Side& side = state_->side;
  const std::unique_ptr<data::Examples> examples = state_->examples(inputs);
  checking::ReferenceFile file(reference_file, examples->size());
  checking::Comparison comparison([&](const LayerValues& layer) {
    if (tolerance > 0) return tolerance;
    return checking::tolerance_of(side.rounding(), file.rounding_of(layer.name), layer.sums);
  });
  CheckReport report;
  report.inputs = examples->size();
  std::vector<std::string> names;
  for_batches(side, *examples, [&](const data::Batch& batch, const auto& layers) {
    file.require_inputs(batch);
    for (const LayerValues& layer : layers) {
      note(names, layer.name);
      if (file.has(layer.name)) {
        comparison.add(layer, file.read(layer, batch.global_row), batch.global_row);
      } else {
        note(report.not_compared, layer.name);
      }
    }
  });
  file.finish(names);
  report.layers = comparison.layers();
  report.side = side.describe();
  report.reference = file.name();
  return report;
}

void Checker::record(const std::string& file, const CheckInputs& inputs) {
  Side& side = state_->side;
  const std::unique_ptr<data::Examples> examples = state_->examples(inputs);
  checking::ReferenceWriter writer(examples->size());
  for_batches(side, *examples, [&](const data::Batch& batch, const auto& layers) {
    for (const LayerValues& input : checking::inputs_of(batch)) {
      writer.add(input, batch.global_row);
    }
    for (const LayerValues& layer : layers) writer.add(layer, batch.global_row);
  });
  writer.write(file, side.precision());
}

}  // namespace sluice
