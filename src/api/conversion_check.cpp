#include "api/conversion_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "api/conversion_inputs.h"
#include "base/check.h"
#include "checking/comparison.h"
#include "checking/layer_values.h"
#include "checking/tolerance.h"
#include "interchange/evaluate/evaluate.h"
#include "model_files/batch_upload.h"
#include "model_files/loaded_model.h"
#include "model_files/plan_cache.h"
#include "models/features.h"
#include "runtime/threads.h"

namespace sluice::api {
namespace {

using checking::LayerValues;
using interchange::LayerOutput;
using interchange::Sequence;
using interchange::SourceModel;

/// Steps of each row, the longest first. Different ones prove that a backward direction starts at a
/// row's own end.
constexpr Lengths kLengths{24, 17, 2, 1};
/// For a chaotic source: rounding has no time to grow.
constexpr Lengths kShortLengths{3, 2, 2, 1};
/// A comparison with a larger tolerance proves nothing.
constexpr double kMostTolerance = 0.01;

// Trained weights may be large, and then rounding grows from step to step: torch's own float32
// differs from its float64 by 1e-4 in medaka's models. The source is computed a second time with
// errors of this size in its inputs and states, which is about that of a float32 sum. The converted
// model may be kLargest times as far away as that.
constexpr double kRounding = 0x1p-21;
constexpr double kLargest = 8;
constexpr auto kRows = static_cast<std::int64_t>(kLengths.size());

using Pair = interchange::Assembled::Pair;
using Rows = std::vector<std::vector<LayerOutput>>;

/// The numbers of a chain's layer where the model has them; `like` where it has others.
LayerValues laid_out(const LayerValues& like, const Pair& pair, const Rows& rows) {
  LayerValues reference = like;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Sequence& output = rows[row][pair.source].value;
    SLUICE_ASSERT(output.width == std::ssize(pair.places) && output.steps <= like.steps);
    for (std::int64_t step = 0; step < output.steps; ++step) {
      const std::int64_t first = (step * like.rows + static_cast<std::int64_t>(row)) * like.width;
      for (std::int64_t i = 0; i < output.width; ++i) {
        reference
            .values[static_cast<std::size_t>(first + pair.places[static_cast<std::size_t>(i)])] =
            static_cast<float>(output.row(step)[i]);
      }
    }
  }
  return reference;
}

/// The largest effect of the disturbance on a layer, relative to the layer's usual number.
double sensitivity(const Pair& pair, const Rows& rows, const Rows& disturbed) {
  double squares = 0, largest = 0, count = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::vector<double>& values = rows[row][pair.source].value.values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double other = disturbed[row][pair.source].value.values[i];
      largest = std::max(largest, std::abs(other - values[i]));
      squares += values[i] * values[i];
      ++count;
    }
  }
  return squares == 0 ? 0 : largest / std::sqrt(squares / count);
}

/// The outputs of the source's layers, and the same under a disturbance of about rounding.
struct Reference {
  Rows rows, disturbed;

  Reference(const ConversionInputs& inputs, const SourceModel& source) {
    for (std::size_t row = 0; row < kLengths.size(); ++row) {
      rows.push_back(inputs.evaluate(source, row));
      disturbed.push_back(inputs.evaluate(source, row, {.size = kRounding, .seed = row + 1}));
    }
  }
};

/// Layers beside those of the source.
class Comparisons {
 public:
  Comparisons(const Reference& reference, const checking::Rounding& rounding)
      : reference_(reference), comparison_([this, rounding](const LayerValues& layer) {
          const double usual = checking::tolerance_of(rounding, rounding, layer.sums);
          return std::max(usual,
                          kLargest * sensitivity(*pair_, reference_.rows, reference_.disturbed));
        }) {}
  Comparisons(const Comparisons&) = delete;
  Comparisons& operator=(const Comparisons&) = delete;

  void add(const LayerValues& layer, const Pair& pair) {
    constexpr std::array<std::int64_t, kLengths.size()> kInputs{0, 1, 2, 3};
    pair_ = &pair;
    comparison_.add(layer, laid_out(layer, pair, reference_.rows), kInputs);
  }

  CheckReport report(std::string side, const SourceModel& source) const {
    CheckReport report;
    report.side = std::move(side);
    report.reference = "the equations of " + source.format + ", float64";
    report.inputs = kRows;
    report.layers = comparison_.layers();
    return report;
  }

 private:
  const Reference& reference_;
  const Pair* pair_ = nullptr;  ///< of the layer that is compared now
  checking::Comparison comparison_;
};

/// The source without a sigmoid behind its last layer, which the model does not compute either.
SourceModel without_last_sigmoid(SourceModel source) {
  if (auto* last = std::get_if<interchange::LinearLayer>(&source.layers.back())) {
    if (last->activation.is("sigmoid")) last->activation = {"linear"};
  }
  return source;
}

CheckReport check_rows(const SourceModel& source, const interchange::Assembled& made,
                       std::uint64_t seed, const Lengths& lengths) {
  const ConversionInputs inputs(source, made, seed, lengths);
  const std::unique_ptr<runtime::Device> device = runtime::open_device("cpu");
  runtime::Context context(*device);
  runtime::use_threads(context, 0);
  const model_files::LoadedModel loaded = model_files::load_model(context, made.container);
  model_files::PlanCache plans(*loaded.model);
  model_files::BatchUpload upload;
  data::Batch host = inputs.batch();
  const std::string& kind = made.kind;
  if (kind == "features" && loaded.tokenizers.labels == nullptr) {
    const auto* features = dynamic_cast<const models::Features*>(loaded.model.get());
    SLUICE_ASSERT(features != nullptr);
    host.values.assign(
        host.target_out.size() * static_cast<std::size_t>(features->config().outputs), 0);
    host.target_out.clear();
  }
  const models::Batch batch = upload.upload(context, host);
  checking::Recorder recorder;
  models::Pass pass;
  pass.probe = &recorder;
  models::TrainingPlan& plan = plans.plan(context, batch.extent, false);
  plan.evaluate(context, plans.arena(), batch, pass);
  context.synchronize();

  const Reference reference(inputs, source);
  Comparisons comparisons(reference, checking::rounding_of(context.precision()));
  for (const Pair& pair : made.pairs) {
    const LayerValues* layer = recorder.find(pair.layer);
    SLUICE_ASSERT(layer != nullptr);
    comparisons.add(*layer, pair);
  }
  return comparisons.report("the model of Sluice, float32 on the CPU", source);
}

CheckReport check_written_rows(const SourceModel& source, const interchange::Assembled& made,
                               const SourceModel& written, const std::vector<Pair>& written_pairs,
                               std::uint64_t seed, const Lengths& lengths) {
  const ConversionInputs inputs(source, made, seed, lengths);
  Rows rows;
  for (std::size_t row = 0; row < kLengths.size(); ++row) {
    rows.push_back(inputs.evaluate_written(written, row));
  }
  const Reference reference(inputs, source);
  // The tensors of both are float32, and those that a conversion folds were rounded again.
  Comparisons comparisons(reference, checking::rounding_of(runtime::Precision{}));
  for (std::size_t i = 0; i < made.pairs.size(); ++i) {
    const Pair& pair = written_pairs[i];
    SLUICE_ASSERT(pair.layer == made.pairs[i].layer);
    LayerValues values;
    values.name = pair.layer;
    values.steps = rows.front()[pair.source].value.steps;
    values.rows = kRows;
    values.width = rows.front()[pair.source].value.width;
    // Each layer adds its rounding to that of the layers before it.
    values.sums = static_cast<std::int64_t>(i) + 1;
    for (const std::vector<LayerOutput>& row : rows) {
      values.lengths.push_back(static_cast<std::int32_t>(row[pair.source].value.steps));
    }
    values.values.resize(static_cast<std::size_t>(values.steps * kRows * values.width));
    comparisons.add(laid_out(values, pair, rows), made.pairs[i]);
  }
  return comparisons.report("what was written, float64", source);
}

/// A comparison over many steps, or over few where rounding grows from step to step.
template <typename Check>
CheckReport proved(const Check& check) {
  CheckReport report = check(kLengths);
  const auto proves = [](const LayerCheck& layer) { return layer.tolerance <= kMostTolerance; };
  if (std::ranges::all_of(report.layers, proves)) return report;
  report = check(kShortLengths);
  for (LayerCheck& layer : report.layers) {
    if (proves(layer)) continue;
    base::fail(ErrorCode::kNumeric,
               "layer '{}' can't be proved: rounding alone changes its output by {:.2g} after {} "
               "steps; convert without --verify and compare by other means",
               layer.name, layer.tolerance, kShortLengths[0]);
  }
  return report;
}

}  // namespace

CheckReport check_conversion(const SourceModel& source, const interchange::Assembled& made,
                             std::uint64_t seed) {
  const SourceModel compared = without_last_sigmoid(source);
  return proved([&](const Lengths& lengths) { return check_rows(compared, made, seed, lengths); });
}

CheckReport check_written(const SourceModel& source, const interchange::Assembled& made,
                          const SourceModel& written,
                          const std::vector<interchange::Assembled::Pair>& pairs,
                          std::uint64_t seed) {
  const SourceModel compared = without_last_sigmoid(source);
  return proved([&](const Lengths& lengths) {
    return check_written_rows(compared, made, written, pairs, seed, lengths);
  });
}

}  // namespace sluice::api
