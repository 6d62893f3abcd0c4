#include "api/beam_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "api/beam_result.h"
#include "base/check.h"
#include "decoding/beam_steps.h"
#include "kernels/elementwise/elementwise.h"
#include "models/language_model_decoding.h"

namespace sluice::api {
namespace {

namespace elementwise = kernels::elementwise;
using decoding::BeamStepsOptions;
using models::LanguageModelDecoding;
using models::RecurrentStates;
using runtime::DType;
using runtime::Tensor;

constexpr double kNone = -std::numeric_limits<double>::infinity();
/// Texts that are read together.
constexpr std::int64_t kReadBatch = 256;

BeamStepsOptions steps_options(const BeamStepOptions& options) {
  BeamStepsOptions steps;
  steps.beam = options.beam;
  steps.steps = options.steps;
  steps.nbest = options.nbest == 0 ? options.beam : options.nbest;
  steps.min_length = options.min_length;
  steps.length_penalty = options.length_penalty;
  steps.allow_unknown = options.allow_unknown;
  steps.validate();
  return steps;
}

/// Rows that a start gives.
std::int64_t rows_of(const BeamStart& start, const BeamStepsOptions& options) {
  return start.every_beam ? start.inputs * options.beam : start.inputs;
}

void check_states(std::span<const float> states, const char* name, const base::Shape& shape,
                  bool on_device) {
  if (states.empty()) return;
  SLUICE_CHECK(std::ssize(states) == shape.element_count(), "{} holds {} numbers; states {} are {}",
               name, states.size(), shape.to_string(), shape.element_count());
  if (on_device) return;
  const auto wrong = std::ranges::find_if_not(states, [](float v) { return std::isfinite(v); });
  SLUICE_CHECK(wrong == states.end(), "number {} of {} is {}", wrong - states.begin(), name,
               *wrong);
}

void check(const models::LanguageModel& model, const BeamStart& start,
           const BeamStepsOptions& options, const decoding::BeamMask& mask) {
  decoding::check_beam_steps(options, start.inputs, mask, model.config().vocabulary);
  const std::int64_t rows = rows_of(start, options);
  SLUICE_CHECK(!start.h.empty() || model.config().features == 0,
               "the model's texts begin from vectors of {} features: give the states that "
               "LanguageModel::read makes of them",
               model.config().features);
  SLUICE_CHECK(start.c.empty() || model.has_cell_state(),
               "c is given, but the model's cells have no such state");
  SLUICE_CHECK(!model.has_cell_state() || start.h.empty() == start.c.empty(),
               "h and c belong together: give both or none");
  check_states(start.h, "h", model.h_shape(rows), start.states_on_device);
  check_states(start.c, "c", model.c_shape(rows), start.states_on_device);
  SLUICE_CHECK(start.tokens.empty() || std::ssize(start.tokens) == rows,
               "{} tokens are given for {} rows", start.tokens.size(), rows);
  SLUICE_CHECK(start.scores.empty() || std::ssize(start.scores) == rows,
               "{} scores are given for {} rows", start.scores.size(), rows);
  decoding::check_beam_rows({start.inputs, {}, start.scores, start.tokens},
                            model.config().vocabulary);
}

/// Where a search begins, with a row for each beam.
struct Rows {
  std::vector<std::int32_t> begin, tokens;
  std::vector<double> scores;

  Rows(const BeamStart& start, const BeamStepsOptions& options) {
    for (std::int64_t i = 0; i < start.inputs; ++i) {
      for (std::int64_t b = 0; b < options.beam; ++b) {
        const std::int64_t given = start.every_beam ? i * options.beam + b : i;
        const auto at = static_cast<std::size_t>(given);
        begin.push_back(static_cast<std::int32_t>(given));
        tokens.push_back(start.tokens.empty() ? data::kBosId : start.tokens[at]);
        const bool is_row = start.every_beam || b == 0;
        scores.push_back(!is_row ? kNone : start.scores.empty() ? 0.0 : start.scores[at]);
      }
    }
  }
};

/// States as float32, and as the model stores them.
struct StateSlots {
  StateSlots(runtime::ArenaPlanner& planner, const base::Shape& shape, DType dtype_in)
      : dtype(dtype_in),
        given(planner.saved(DType::kFloat32, shape)),
        stored(planner.saved(dtype, shape)) {}

  Tensor put(const runtime::Context& context, const runtime::Arena& arena,
             std::span<const float> values, const base::Shape& shape, bool on_device) const {
    const Tensor to = arena.tensor(stored, dtype, shape);
    if (values.empty()) {
      context.zero(to);
      return to;
    }
    const Tensor from = arena.tensor(given, DType::kFloat32, shape);
    if (on_device) {
      context.copy(from, Tensor(const_cast<float*>(values.data()), DType::kFloat32, shape));
    } else {
      context.upload<float>(from, values);
    }
    elementwise::convert(context, from, to);
    return to;
  }

  DType dtype;
  runtime::Slot given, stored;
};

struct SearchPlan {
  SearchPlan(const runtime::Context& context, const models::LanguageModel& model,
             const BeamStepsOptions& options, std::int64_t inputs, std::int64_t given,
             const decoding::BeamMask& mask, runtime::ArenaPlanner& planner,
             const runtime::Arena& arena)
      : decoding(context, model, {given, inputs * options.beam, 0}, planner, arena),
        steps(decoding, options, inputs, DType::kFloat32, mask, planner, arena),
        h(planner, model.h_shape(given), model.parameters().storage(context)),
        c(planner, model.has_cell_state() ? model.c_shape(given) : base::Shape{0},
          base::policy_of(model.parameters().storage(context)).cell_state) {}

  LanguageModelDecoding decoding;
  decoding::BeamSteps steps;
  StateSlots h, c;
};

struct ReadPlan {
  ReadPlan(const runtime::Context& context, const models::LanguageModel& model, std::int64_t rows,
           std::int64_t time, runtime::ArenaPlanner& planner, const runtime::Arena& arena)
      : decoding(context, model, {rows, rows, time}, planner, arena),
        features(planner.saved(DType::kFloat32, {rows, model.config().features})),
        rows_of(planner.saved(DType::kInt32, {rows})),
        h(planner.saved(DType::kFloat32, model.h_shape(rows))),
        c(planner.saved(DType::kFloat32, model.c_shape(rows))) {}

  LanguageModelDecoding decoding;
  runtime::Slot features, rows_of, h, c;
};

}  // namespace

Beam beam_search(const runtime::Context& context, const models::LanguageModel& model,
                 KeptPlans& kept, const data::Tokenizer& tokenizer, const BeamStart& start,
                 const BeamStepOptions& given) {
  const BeamStepsOptions options = steps_options(given);
  const decoding::BeamMask mask{given.allowed, given.mask_steps, given.mask_inputs};
  check(model, start, options, mask);
  const Rows rows(start, options);
  const std::int64_t count = rows_of(start, options);
  // Capacities, which calls with like numbers of inputs share.
  const std::int64_t inputs = runtime::round_to_few(start.inputs);
  const std::int64_t most = start.every_beam ? inputs * options.beam : inputs;
  decoding::BeamMask largest = mask;
  if (mask.inputs > 1) largest.inputs = inputs;
  std::unique_ptr<Beam::State> result;
  kept.call([&] {
    kept.store.with_room([&] {
      const std::string key =
          fmt::format("beam {} {} {} {} {} {} {} {} {} {}", inputs, most, options.beam,
                      options.steps, options.nbest, options.min_length, options.length_penalty,
                      options.allow_unknown, mask.allowed.empty() ? 0 : mask.steps, largest.inputs);
      const runtime::Arena& arena = kept.store.arena();
      SearchPlan& plan =
          kept.store.plan<SearchPlan>(context, key, [&](runtime::ArenaPlanner& planner) {
            return std::make_unique<SearchPlan>(context, model, options, inputs, most, largest,
                                                planner, arena);
          });
      plan.decoding.pack(context);
      LanguageModelDecoding::Inputs from;
      from.count = count;
      from.states.h =
          plan.h.put(context, arena, start.h, model.h_shape(count), start.states_on_device);
      if (model.has_cell_state()) {
        from.states.c =
            plan.c.put(context, arena, start.c, model.c_shape(count), start.states_on_device);
      }
      plan.decoding.encode(context, from);
      const decoding::BeamStepsResults found =
          plan.steps.run(context, {start.inputs, rows.begin, rows.scores, rows.tokens}, mask);
      result = std::make_unique<Beam::State>(context, tokenizer, found, plan.decoding.state(),
                                             start.every_beam);
    });
  });
  return Beam(std::move(result));
}

namespace {

/// Reads texts first..first + count, and puts where they stand into `states`, of `rows` texts.
void read_batch(const runtime::Context& context, const models::LanguageModel& model,
                KeptPlans& kept, std::span<const std::vector<std::int32_t>> prompts,
                const FeatureVectors& features, std::int64_t first, std::int64_t count,
                RowStates& states) {
  const auto batch =
      prompts.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  std::size_t longest = 1;
  for (const auto& prompt : batch) longest = std::max(longest, prompt.size());
  const std::int64_t time = runtime::round_to_few(static_cast<std::int64_t>(longest));
  const std::int64_t most = runtime::round_to_few(count);
  const runtime::Arena& arena = kept.store.arena();
  ReadPlan& plan = kept.store.plan<ReadPlan>(
      context, fmt::format("read {} {}", most, time), [&](runtime::ArenaPlanner& planner) {
        return std::make_unique<ReadPlan>(context, model, most, time, planner, arena);
      });
  plan.decoding.pack(context);
  LanguageModelDecoding::Inputs from;
  from.count = count;
  from.prompts = batch;
  if (features.width > 0) {
    from.features = arena.tensor(plan.features, DType::kFloat32, {count, features.width});
    context.upload<float>(from.features,
                          std::span(features.values)
                              .subspan(static_cast<std::size_t>(first * features.width),
                                       static_cast<std::size_t>(count * features.width)));
  }
  plan.decoding.encode(context, from);
  const Tensor each = arena.tensor(plan.rows_of, DType::kInt32, {count});
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  context.upload<std::int32_t>(each, numbers);
  plan.decoding.start(context, each, count);
  const auto rows = static_cast<std::int64_t>(prompts.size());
  for (const models::StateTensor& part : plan.decoding.state()) {
    const bool is_h = part.name == "h";
    const Tensor wide = arena.tensor(is_h ? plan.h : plan.c, DType::kFloat32, part.value.shape());
    elementwise::convert(context, part.value, wide);
    const std::vector<float> values = context.download<float>(wide);
    const std::int64_t layers = wide.size(0), width = wide.size(2);
    std::vector<float>& all = is_h ? states.h : states.c;
    all.resize(static_cast<std::size_t>(layers * rows * width));
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      std::copy_n(values.begin() + layer * count * width, count * width,
                  all.begin() + (layer * rows + first) * width);
    }
  }
}

}  // namespace

RowStates read_states(const runtime::Context& context, const models::LanguageModel& model,
                      KeptPlans& kept, std::span<const std::vector<std::int32_t>> prompts,
                      const FeatureVectors& features) {
  RowStates states;
  const auto rows = static_cast<std::int64_t>(prompts.size());
  SLUICE_CHECK(features.width == 0 || std::ssize(features.values) == rows * features.width,
               "{} vectors are given for {} texts",
               features.width == 0 ? 0 : features.values.size() / features.width, rows);
  kept.call([&] {
    kept.store.with_room([&] {
      for (std::int64_t first = 0; first < rows; first += kReadBatch) {
        read_batch(context, model, kept, prompts, features, first,
                   std::min(kReadBatch, rows - first), states);
      }
    });
  });
  for (const auto& prompt : prompts) states.tokens.push_back(prompt.back());
  return states;
}

}  // namespace sluice::api
