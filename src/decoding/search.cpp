#include "decoding/search.h"

#include <algorithm>

#include "base/check.h"
#include "data/tokenizer.h"
#include "decoding/steps.h"
#include "kernels/beam_search/beam_search.h"
#include "runtime/arena.h"
#include "runtime/span.h"

namespace sluice::decoding {

namespace kernel = kernels::beam_search;

namespace {

kernel::Rules rules_of(const SearchOptions& options) {
  kernel::Rules rules;
  rules.min_length = options.min_length;
  rules.length_penalty = options.length_penalty;
  // One beam goes on after its first eos only to look for something longer, which isn't greedy.
  rules.stop_when_full = options.stop == StopRule::kBeamFull || options.beam == 1;
  rules.pad = data::kPadId;
  rules.bos = data::kBosId;
  rules.eos = data::kEosId;
  rules.unknown = options.allow_unknown ? -1 : data::kUnknownId;
  return rules;
}

}  // namespace

/// Where the memory of a search lies.
struct BeamSearch::Slots {
  Slots(runtime::ArenaPlanner& planner, std::int64_t vocabulary, const SearchOptions& options,
        const SearchCapacity& capacity);

  kernel::StateSlots state;
  runtime::Slot logits, attention, tokens, result_attention;
};

namespace {

/// Most tokens of any answer that a search of this capacity gives.
std::int64_t longest_answer(const SearchOptions& options, const SearchCapacity& capacity) {
  return std::max(options.max_length_for(capacity.source_time), capacity.prefix_time);
}

kernel::Extent extent_of(const SearchOptions& options, const SearchCapacity& size,
                         std::int64_t max_length) {
  kernel::Extent extent;
  extent.inputs = size.inputs;
  extent.beam = options.beam;
  extent.nbest = options.nbest;
  extent.max_length = max_length;
  extent.attention = options.attention;
  extent.source_time = options.attention ? size.source_time : 0;
  extent.dtype = size.dtype;
  extent.prefix_time = size.prefix_time;
  return extent;
}

}  // namespace

BeamSearch::Slots::Slots(runtime::ArenaPlanner& planner, std::int64_t vocabulary,
                         const SearchOptions& options, const SearchCapacity& capacity) {
  const kernel::Extent most = extent_of(options, capacity, longest_answer(options, capacity));
  state = kernel::StateSlots(planner, most);
  logits = planner.saved(most.dtype, {most.rows(), vocabulary});
  tokens = planner.saved(DType::kInt32, {most.inputs, most.nbest, most.max_length});
  if (!most.attention) return;
  attention = planner.saved(most.dtype, {most.rows(), most.source_time});
  result_attention =
      planner.saved(most.dtype, {most.inputs, most.nbest, most.max_length, most.source_time});
}

struct BeamSearch::Plan {
  /// What one run works on: views of the plan's memory.
  struct Views {
    kernel::State state;
    Tensor logits, attention, tokens, result_attention;
  };

  Plan(models::StepModel& model_in, const SearchOptions& options_in,
       const SearchCapacity& capacity_in, runtime::ArenaPlanner& planner,
       const runtime::Arena* shared)
      : model(&model_in),
        arena(shared == nullptr ? own_arena : *shared),
        options(options_in),
        capacity(capacity_in),
        rules(rules_of(options_in)),
        slots(planner, model_in.vocabulary(), options_in, capacity_in) {}
  void check(std::span<const std::int32_t> source_lengths, Prefixes prefixes) const;
  Views views(const kernel::Extent& extent) const;
  void advance(const Context& context, const Views& views) const;
  /// Steps until every input is done.
  void search(const Context& context, const Views& views);

  models::StepModel* model;
  runtime::Arena own_arena;
  const runtime::Arena& arena;
  SearchOptions options;
  SearchCapacity capacity;
  kernel::Rules rules;
  Slots slots;
  Steps steps{};
};

void BeamSearch::Plan::check(std::span<const std::int32_t> source_lengths,
                             Prefixes prefixes) const {
  SLUICE_CHECK(static_cast<std::int64_t>(source_lengths.size()) <= capacity.inputs,
               "{} inputs do not fit a beam search for {}", source_lengths.size(), capacity.inputs);
  const std::int64_t most = options.attention ? std::min(capacity.source_time, model->source_time())
                                              : capacity.source_time;
  for (std::size_t i = 0; i < source_lengths.size(); ++i) {
    SLUICE_CHECK(source_lengths[i] >= 0 && source_lengths[i] <= most,
                 "input {} has {} source tokens; a beam search for {} can't take it", i,
                 source_lengths[i], most);
  }
  SLUICE_CHECK(!options.attention || model->source_time() <= capacity.source_time,
               "the model attends to {} source tokens; the beam search has room for {}",
               model->source_time(), capacity.source_time);
  check_prefixes(prefixes, source_lengths.size(),
                 std::min(options.max_length, capacity.prefix_time), model->vocabulary());
}

BeamSearch::Plan::Views BeamSearch::Plan::views(const kernel::Extent& extent) const {
  Views views;
  views.state = slots.state.view(arena, extent);
  views.logits = arena.tensor(slots.logits, extent.dtype, {extent.rows(), model->vocabulary()});
  views.tokens =
      arena.tensor(slots.tokens, DType::kInt32, {extent.inputs, extent.nbest, extent.max_length});
  if (extent.attention) {
    views.attention =
        arena.tensor(slots.attention, extent.dtype, {extent.rows(), extent.source_time});
    views.result_attention =
        arena.tensor(slots.result_attention, extent.dtype,
                     {extent.inputs, extent.nbest, extent.max_length, extent.source_time});
  }
  return views;
}

void BeamSearch::Plan::advance(const Context& context, const Views& views) const {
  const runtime::Span span(context, "beam_search", "select");
  kernel::advance(context, rules, views.state, views.logits, views.attention);
}

void BeamSearch::Plan::search(const Context& context, const Views& views) {
  const kernel::State& state = views.state;
  const Poll poll(context, options.poll_every, "beam_search");
  kernel::start(context, rules, state);
  model->start(context, state.input_of_row, state.extent.rows());
  // At the greatest length every input ends, so the steps are bounded without a look.
  const kernel::Extent& extent = state.extent;
  const runtime::GraphKey key =
      key_of({extent.inputs, extent.max_length, extent.source_time, extent.prefix_time});
  const auto take = [&](bool first) {
    if (first || options.beam == 1) {
      model->step(context, state.tokens, views.logits, views.attention);
    } else {
      model->step_from(context, state.parents, state.tokens, views.logits, views.attention);
    }
    advance(context, views);
  };
  steps.take(context, *model, poll, extent.max_length + 1, state.unfinished, arena, key, take);
}

BeamSearch::BeamSearch(const Context& context, models::StepModel& model,
                       const SearchOptions& options, const SearchCapacity& capacity) {
  runtime::ArenaPlanner planner;
  check(model, options, capacity);
  plan_ = std::make_unique<Plan>(model, options, capacity, planner, nullptr);
  plan_->own_arena = runtime::Arena(context.device(), planner);
}

BeamSearch::BeamSearch(models::StepModel& model, const SearchOptions& options,
                       const SearchCapacity& capacity, runtime::ArenaPlanner& planner,
                       const runtime::Arena& arena) {
  check(model, options, capacity);
  plan_ = std::make_unique<Plan>(model, options, capacity, planner, &arena);
}

void BeamSearch::check(const models::StepModel& model, const SearchOptions& options,
                       const SearchCapacity& capacity) {
  options.validate();
  SLUICE_CHECK(capacity.inputs >= 1 && capacity.source_time >= 0,
               "a beam search can't be made for {} inputs of {} source tokens", capacity.inputs,
               capacity.source_time);
  SLUICE_CHECK(capacity.dtype == DType::kFloat32 || capacity.dtype == DType::kFloat64,
               "beam search takes logits in float32 or float64, not {}",
               base::name_of(capacity.dtype));
  const std::int64_t rows = capacity.inputs * options.beam, vocabulary = model.vocabulary();
  SLUICE_CHECK(
      rows <= model.max_rows(),
      "beam search over {} inputs with beam {} needs {} rows, but the model has room for {}",
      capacity.inputs, options.beam, rows, model.max_rows());
  SLUICE_CHECK(vocabulary > data::kEosId,
               "beam search needs a vocabulary with eos (id {}), not one of {} tokens",
               data::kEosId, vocabulary);
}

std::size_t BeamSearch::bytes(std::int64_t vocabulary, const SearchOptions& options,
                              const SearchCapacity& capacity) {
  runtime::ArenaPlanner planner;
  const Slots slots(planner, vocabulary, options, capacity);
  return planner.total();
}

BeamSearch::~BeamSearch() = default;
BeamSearch::BeamSearch(BeamSearch&&) noexcept = default;
BeamSearch& BeamSearch::operator=(BeamSearch&&) noexcept = default;

const SearchOptions& BeamSearch::options() const { return plan_->options; }

SearchResults BeamSearch::run(const Context& context, std::span<const std::int32_t> source_lengths,
                              Prefixes prefixes) {
  Plan& plan = *plan_;
  plan.check(source_lengths, prefixes);
  SearchResults results;
  results.source_lengths.assign(source_lengths.begin(), source_lengths.end());
  results.inputs = static_cast<std::int64_t>(source_lengths.size());
  if (results.inputs == 0) return results;

  const std::vector<std::int32_t> max_lengths =
      max_lengths_of(plan.options, source_lengths, prefixes);
  // Steps that are captured serve later searches if these have the same extent.
  results.max_length = context.stream().can_capture()
                           ? longest_answer(plan.options, plan.capacity)
                           : *std::max_element(max_lengths.begin(), max_lengths.end());
  const std::int64_t source_time = plan.options.attention ? plan.model->source_time() : 0;
  const Plan::Views views = plan.views(
      extent_of(plan.options, {results.inputs, source_time, plan.capacity.dtype, longest(prefixes)},
                results.max_length));
  context.upload<std::int32_t>(views.state.max_lengths, max_lengths);
  upload(context, prefixes, views.state.prefix, views.state.prefix_lengths);
  plan.search(context, views);
  const runtime::Span span(context, "beam_search", "trace back");
  kernel::trace_back(context, plan.rules, views.state, views.tokens, views.result_attention);

  results.tokens = views.tokens;
  results.lengths = views.state.best_lengths;
  results.scores = views.state.best_scores;
  results.normalised_scores = views.state.best_normalised;
  results.attention = views.result_attention;
  results.faults = views.state.faults;
  return results;
}

}  // namespace sluice::decoding
