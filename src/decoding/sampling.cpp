#include "decoding/sampling.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "data/tokenizer.h"
#include "decoding/steps.h"
#include "kernels/sampling/sampling.h"
#include "kernels/token_mask/token_mask.h"
#include "runtime/arena.h"
#include "runtime/span.h"

namespace sluice::decoding {

namespace kernel = kernels::sampling;

namespace {

kernel::Rules rules_of(const SamplingOptions& options) {
  kernel::Rules rules;
  rules.temperature = options.temperature;
  rules.top_k = options.top_k;
  rules.top_p = options.top_p;
  rules.seed = options.seed;
  rules.force_end = options.force_end;
  rules.min_length = options.min_length;
  rules.pad = data::kPadId;
  rules.bos = data::kBosId;
  rules.eos = data::kEosId;
  rules.unknown = options.allow_unknown ? -1 : data::kUnknownId;
  return rules;
}

kernel::Extent extent_of(const SamplingOptions& options, const SearchCapacity& size,
                         std::int64_t max_length) {
  kernel::Extent extent;
  extent.inputs = size.inputs;
  extent.samples = options.samples;
  extent.max_length = max_length;
  extent.prefix_time = size.prefix_time;
  extent.attention = options.attention;
  extent.source_time = options.attention ? size.source_time : 0;
  extent.dtype = size.dtype;
  return extent;
}

/// Most tokens of any sample that a run of this capacity draws.
std::int64_t longest_sample(const SamplingOptions& options, const SearchCapacity& capacity) {
  return std::max(options.max_length_for(capacity.source_time), capacity.prefix_time);
}

/// Where the memory of a search lies.
struct Slots {
  Slots(runtime::ArenaPlanner& planner, std::int64_t vocabulary, const SamplingOptions& options,
        const SearchCapacity& capacity) {
    const kernel::Extent most = extent_of(options, capacity, longest_sample(options, capacity));
    state = kernel::StateSlots(planner, most);
    logits = planner.saved(most.dtype, {most.rows(), vocabulary});
    if (most.attention) attention = planner.saved(most.dtype, {most.rows(), most.source_time});
    if (!options.constraints.any()) return;
    mask = ConstraintMask(planner, options.constraints, vocabulary, most.rows(), most.max_length);
    choices = planner.saved(most.dtype, {most.rows(), vocabulary});
  }

  kernel::StateSlots state;
  ConstraintMask mask;
  runtime::Slot logits, attention, choices;
};

/// What one run works on: views of the plan's memory.
struct Views {
  kernel::State state;
  kernels::token_mask::State mask;  ///< absent without constraints, as are choices
  Tensor logits, attention, choices;
};

}  // namespace

struct Sampling::Plan {
  Plan(models::StepModel& model_in, const SamplingOptions& options_in,
       const SearchCapacity& capacity_in, runtime::ArenaPlanner& planner,
       const runtime::Arena* shared)
      : model(&model_in),
        arena(shared == nullptr ? own_arena : *shared),
        options(options_in),
        capacity(capacity_in),
        rules(rules_of(options_in)),
        slots(planner, model_in.vocabulary(), options_in, capacity_in) {}
  void check(std::span<const std::int32_t> source_lengths, std::span<const std::int32_t> input_ids,
             Prefixes prefixes) const;
  Views views(const kernel::Extent& extent) const;
  void check_resumed(std::size_t inputs, const StreamState& from) const;
  /// From the beginning, or from where `from` stands.
  SearchResults run(const Context& context, std::span<const std::int32_t> source_lengths,
                    std::span<const std::int32_t> input_ids, Prefixes prefixes,
                    const StreamState* from);
  void resume(const Context& context, const Views& views, const StreamState& from) const;
  /// Steps until every sample is done.
  void search(const Context& context, const Views& views);
  /// Adds the tensors to what `found` holds.
  SearchResults results(const Views& views, SearchResults found) const;

  models::StepModel* model;
  runtime::Arena own_arena;
  const runtime::Arena& arena;
  SamplingOptions options;
  SearchCapacity capacity;
  kernel::Rules rules;
  Slots slots;
  // Of the last run.
  Views last{};
  std::vector<std::int32_t> max_lengths{};
  Steps steps{};
};

void Sampling::Plan::check(std::span<const std::int32_t> source_lengths,
                           std::span<const std::int32_t> input_ids, Prefixes prefixes) const {
  const auto inputs = static_cast<std::int64_t>(source_lengths.size());
  SLUICE_CHECK(inputs <= capacity.inputs, "{} inputs do not fit sampling for {}", inputs,
               capacity.inputs);
  SLUICE_CHECK(input_ids.empty() || input_ids.size() == source_lengths.size(),
               "{} ids for {} inputs", input_ids.size(), inputs);
  for (std::size_t i = 0; i < source_lengths.size(); ++i) {
    SLUICE_CHECK(source_lengths[i] >= 0 && source_lengths[i] <= capacity.source_time,
                 "input {} has {} source tokens; sampling for {} can't take it", i,
                 source_lengths[i], capacity.source_time);
  }
  SLUICE_CHECK(!options.attention || model->source_time() <= capacity.source_time,
               "the model attends to {} source tokens; sampling has room for {}",
               model->source_time(), capacity.source_time);
  check_prefixes(prefixes, source_lengths.size(),
                 std::min(options.max_length, capacity.prefix_time), model->vocabulary());
}

Views Sampling::Plan::views(const kernel::Extent& extent) const {
  Views views;
  views.state = slots.state.view(arena, extent);
  views.logits = arena.tensor(slots.logits, extent.dtype, {extent.rows(), model->vocabulary()});
  if (extent.attention) {
    views.attention =
        arena.tensor(slots.attention, extent.dtype, {extent.rows(), extent.source_time});
  }
  if (!options.constraints.any()) return views;
  views.mask = slots.mask.view(arena, extent.rows(), extent.max_length);
  views.choices = arena.tensor(slots.choices, extent.dtype, views.logits.shape());
  return views;
}

void Sampling::Plan::check_resumed(std::size_t inputs, const StreamState& from) const {
  SLUICE_CHECK(from.seed == options.seed && from.samples == options.samples,
               "a state of {} samples with seed {} cannot be continued as {} with seed {}",
               from.samples, from.seed, options.samples, options.seed);
  // Their first tokens are not in the state.
  SLUICE_CHECK(!options.constraints.any(),
               "samples that continue from a state can't be held to banned words or no_repeat");
  SLUICE_CHECK(from.input_ids.size() == inputs,
               "the state is of {} inputs and cannot be continued for {}; give as many",
               from.input_ids.size(), inputs);
  const auto rows = inputs * static_cast<std::size_t>(options.samples);
  SLUICE_CHECK(
      from.tokens.size() == rows && from.status.size() == rows && from.scores.size() == rows,
      "a state of {} samples of {} inputs must have {} rows", options.samples, inputs, rows);
  for (const std::int32_t token : from.tokens) {
    SLUICE_CHECK(token >= 0 && token < model->vocabulary(),
                 "the state's token {} is not in the vocabulary of {}", token, model->vocabulary());
  }
}

SearchResults Sampling::Plan::run(const Context& context,
                                  std::span<const std::int32_t> source_lengths,
                                  std::span<const std::int32_t> input_ids, Prefixes prefixes,
                                  const StreamState* from) {
  check(source_lengths, input_ids, prefixes);
  SearchResults found;
  found.source_lengths.assign(source_lengths.begin(), source_lengths.end());
  found.inputs = static_cast<std::int64_t>(source_lengths.size());
  if (found.inputs == 0) return found;

  max_lengths = max_lengths_of(options, source_lengths, prefixes);
  // Steps that are captured serve later runs if these have the same extent. Samples that are cut
  // must not be stepped any further, for they may be gone on with.
  const bool same_for_all = options.force_end && context.stream().can_capture();
  const std::int64_t most = same_for_all
                                ? longest_sample(options, capacity)
                                : *std::max_element(max_lengths.begin(), max_lengths.end());
  const std::int64_t source_time = options.attention ? model->source_time() : 0;
  last = views(
      extent_of(options, {found.inputs, source_time, capacity.dtype, longest(prefixes)}, most));
  const kernel::State& state = last.state;
  context.upload<std::int32_t>(state.max_lengths, max_lengths);
  context.upload<std::int32_t>(state.input_ids, input_ids);
  upload(context, prefixes, 1, state.prefix, state.prefix_lengths);
  ConstraintMask::upload(context, options.constraints, last.mask);
  kernel::start(context, rules, state);
  model->start(context, state.input_of_row, state.extent.rows());
  if (from != nullptr) resume(context, last, *from);
  search(context, last);
  return results(last, std::move(found));
}

void Sampling::Plan::resume(const Context& context, const Views& views,
                            const StreamState& from) const {
  upload_state(context, model->state(), from.model);
  std::vector<std::int32_t> status = from.status, lengths(status.size());
  for (std::size_t row = 0; row < status.size(); ++row) {
    if (status[row] == kernel::kCut) status[row] = kernel::kLive;
    if (status[row] == kernel::kImpossible) lengths[row] = -1;
  }
  const kernel::State& state = views.state;
  context.upload<std::int32_t>(state.tokens, from.tokens);
  context.upload<std::int32_t>(state.status, status);
  context.upload<std::int32_t>(state.lengths, lengths);
  context.upload<double>(state.scores, from.scores);
  context.upload<std::int32_t>(state.first_step, std::vector<std::int32_t>{from.steps});
}

void Sampling::Plan::search(const Context& context, const Views& views) {
  const kernel::State& state = views.state;
  const Poll poll(context, options.poll_every, "sampling");
  // At the greatest length every sample ends or is cut, so the steps are bounded without a look.
  const std::int64_t most = state.extent.max_length + (rules.force_end ? 1 : 0);
  const kernel::Extent& extent = state.extent;
  runtime::GraphKey key =
      key_of({extent.inputs, extent.max_length, extent.source_time, extent.prefix_time});
  key.push_back(rules.seed);
  steps.take(context, *model, poll, most, state.unfinished, arena, key, [&](bool) {
    model->step(context, state.tokens, views.logits, views.attention);
    const runtime::Span span(context, "sampling", "draw");
    if (views.choices) {
      kernels::token_mask::update(context, {options.constraints.no_repeat}, views.mask, state.step,
                                  state.tokens, {});
      kernels::token_mask::apply(context, views.mask.mask, views.logits, views.choices);
    }
    kernel::advance(context, rules, state, views.logits, views.attention, views.choices);
  });
}

SearchResults Sampling::Plan::results(const Views& views, SearchResults found) const {
  const kernel::State& state = views.state;
  const kernel::Extent& extent = state.extent;
  const base::Shape each{extent.inputs, extent.samples};
  found.max_length = extent.max_length;
  found.tokens = state.emitted.reshape({extent.inputs, extent.samples, extent.max_length});
  found.lengths = state.lengths.reshape(each);
  found.scores = found.normalised_scores = state.scores.reshape(each);
  found.status = state.status.reshape(each);
  if (extent.attention) {
    found.attention = state.attention.reshape(
        {extent.inputs, extent.samples, extent.max_length, extent.source_time});
  }
  found.faults = state.faults;
  return found;
}

Sampling::Sampling(const Context& context, models::StepModel& model, const SamplingOptions& options,
                   const SearchCapacity& capacity) {
  runtime::ArenaPlanner planner;
  check(model, options, capacity);
  plan_ = std::make_unique<Plan>(model, options, capacity, planner, nullptr);
  plan_->own_arena = runtime::Arena(context.device(), planner);
}

Sampling::Sampling(models::StepModel& model, const SamplingOptions& options,
                   const SearchCapacity& capacity, runtime::ArenaPlanner& planner,
                   const runtime::Arena& arena) {
  check(model, options, capacity);
  plan_ = std::make_unique<Plan>(model, options, capacity, planner, &arena);
}

void Sampling::check(const models::StepModel& model, const SamplingOptions& options,
                     const SearchCapacity& capacity) {
  options.validate();
  options.constraints.check_tokens(model.vocabulary());
  SLUICE_CHECK(capacity.inputs >= 1 && capacity.source_time >= 0 && capacity.prefix_time >= 0,
               "sampling can't be made for {} inputs of {} source tokens", capacity.inputs,
               capacity.source_time);
  SLUICE_CHECK(capacity.dtype == DType::kFloat32 || capacity.dtype == DType::kFloat64,
               "sampling takes logits in float32 or float64, not {}",
               base::name_of(capacity.dtype));
  const std::int64_t rows = capacity.inputs * options.samples, vocabulary = model.vocabulary();
  SLUICE_CHECK(rows <= model.max_rows(),
               "{} samples of {} inputs need {} rows, but the model has room for {}",
               options.samples, capacity.inputs, rows, model.max_rows());
  SLUICE_CHECK(vocabulary > data::kEosId,
               "sampling needs a vocabulary with eos (id {}), not one of {} tokens", data::kEosId,
               vocabulary);
}

void Sampling::set_seed(std::uint64_t seed) { plan_->options.seed = plan_->rules.seed = seed; }

std::size_t Sampling::bytes(std::int64_t vocabulary, const SamplingOptions& options,
                            const SearchCapacity& capacity) {
  runtime::ArenaPlanner planner;
  const Slots slots(planner, vocabulary, options, capacity);
  return planner.total();
}

Sampling::~Sampling() = default;
Sampling::Sampling(Sampling&&) noexcept = default;
Sampling& Sampling::operator=(Sampling&&) noexcept = default;

const SamplingOptions& Sampling::options() const { return plan_->options; }

SearchResults Sampling::run(const Context& context, std::span<const std::int32_t> source_lengths,
                            std::span<const std::int32_t> input_ids, Prefixes prefixes) {
  std::vector<std::int32_t> ids(input_ids.begin(), input_ids.end());
  if (ids.empty()) {
    ids.resize(source_lengths.size());
    std::iota(ids.begin(), ids.end(), 0);
  }
  return plan_->run(context, source_lengths, ids, prefixes, nullptr);
}

SearchResults Sampling::resume(const Context& context, std::span<const std::int32_t> source_lengths,
                               const StreamState& from) {
  plan_->check_resumed(source_lengths.size(), from);
  return plan_->run(context, source_lengths, from.input_ids, {}, &from);
}

StreamState Sampling::stream_state(const Context& context) const {
  const Plan& plan = *plan_;
  SLUICE_CHECK(!plan.options.force_end && !plan.max_lengths.empty(),
               "only samples that were cut can be continued");
  const auto [shortest, longest] =
      std::minmax_element(plan.max_lengths.begin(), plan.max_lengths.end());
  SLUICE_CHECK(
      *shortest == *longest,
      "samples that were cut at different lengths, {} and {}, cannot be continued together",
      *shortest, *longest);
  const kernel::State& state = plan.last.state;
  StreamState stream;
  stream.seed = plan.options.seed;
  stream.samples = plan.options.samples;
  stream.steps = context.download<std::int32_t>(state.first_step)[0] + *longest;
  stream.input_ids = context.download<std::int32_t>(state.input_ids);
  stream.tokens = context.download<std::int32_t>(state.tokens);
  stream.status = context.download<std::int32_t>(state.status);
  stream.scores = context.download<double>(state.scores);
  stream.model = download_state(context, plan.model->state());
  return stream;
}

}  // namespace sluice::decoding
