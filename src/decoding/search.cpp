#include "decoding/search.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "data/tokenizer.h"
#include "decoding/steps.h"
#include "kernels/beam_search/beam_search.h"
#include "kernels/token_mask/token_mask.h"
#include "runtime/arena.h"
#include "runtime/span.h"

namespace sluice::decoding {

namespace kernel = kernels::beam_search;

namespace {

/// Beams of one group.
std::int64_t beam_of(const SearchOptions& options) { return options.beam / options.groups; }

kernel::Rules rules_of(const SearchOptions& options) {
  kernel::Rules rules;
  rules.min_length = options.min_length;
  rules.length_penalty = options.length_penalty;
  // One beam goes on after its first eos only to look for something longer, which isn't greedy.
  rules.stop_when_full = options.stop == StopRule::kBeamFull ||
                         (beam_of(options) == 1 && !options.without_replacement);
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
  ConstraintMask mask;
  runtime::Slot logits, attention, tokens, result_attention;
};

namespace {

/// Most tokens of any answer that a search of this capacity gives.
std::int64_t longest_answer(const SearchOptions& options, const SearchCapacity& capacity) {
  return std::max(options.max_length_for(capacity.source_time), capacity.prefix_time);
}

bool attends(const SearchOptions& options) {
  return options.attention || options.coverage_penalty > 0;
}

kernel::Extent extent_of(const SearchOptions& options, const SearchCapacity& size,
                         std::int64_t max_length, std::int64_t vocabulary) {
  kernel::Extent extent;
  extent.inputs = size.inputs * options.groups;
  extent.groups = options.groups;
  extent.beam = beam_of(options);
  extent.nbest = std::min(options.nbest, extent.beam);
  extent.max_length = max_length;
  extent.attention = options.attention;
  extent.coverage = options.coverage_penalty > 0;
  extent.source_time = attends(options) ? size.source_time : 0;
  extent.phrases = size.phrases;
  extent.phrase_time = size.phrase_time;
  extent.sampled_vocabulary = options.without_replacement ? vocabulary : 0;
  extent.dtype = size.dtype;
  extent.prefix_time = size.prefix_time;
  extent.masked = options.constraints.any();
  return extent;
}

/// The number of each input for each of its groups.
std::vector<std::int32_t> of_groups(const SearchOptions& options,
                                    std::span<const std::int32_t> of_inputs) {
  std::vector<std::int32_t> all;
  for (const std::int32_t one : of_inputs) {
    all.insert(all.end(), static_cast<std::size_t>(options.groups), one);
  }
  return all;
}

}  // namespace

BeamSearch::Slots::Slots(runtime::ArenaPlanner& planner, std::int64_t vocabulary,
                         const SearchOptions& options, const SearchCapacity& capacity) {
  const kernel::Extent most =
      extent_of(options, capacity, longest_answer(options, capacity), vocabulary);
  state = kernel::StateSlots(planner, most);
  mask = ConstraintMask(planner, options.constraints, vocabulary, most.rows(), most.max_length);
  logits = planner.saved(most.dtype, {most.rows(), vocabulary});
  tokens = planner.saved(DType::kInt32, {most.inputs, most.nbest, most.max_length});
  if (most.source_time > 0) {
    attention = planner.saved(most.dtype, {most.rows(), most.source_time});
  }
  if (!most.attention) return;
  result_attention =
      planner.saved(most.dtype, {most.inputs, most.nbest, most.max_length, most.source_time});
}

struct BeamSearch::Plan {
  /// What one run works on: views of the plan's memory.
  struct Views {
    kernel::State state;
    kernels::token_mask::State mask;  ///< absent without constraints
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
  void check(std::span<const std::int32_t> source_lengths, Prefixes prefixes, Forced forced,
             std::span<const std::int32_t> input_ids) const;
  void upload_extras(const Context& context, const Views& views,
                     std::span<const std::int32_t> source_lengths, Forced forced,
                     std::span<const std::int32_t> input_ids) const;
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

void BeamSearch::Plan::check(std::span<const std::int32_t> source_lengths, Prefixes prefixes,
                             Forced forced, std::span<const std::int32_t> input_ids) const {
  SLUICE_CHECK(static_cast<std::int64_t>(source_lengths.size()) <= capacity.inputs,
               "{} inputs do not fit a beam search for {}", source_lengths.size(), capacity.inputs);
  const std::int64_t most = attends(options) ? std::min(capacity.source_time, model->source_time())
                                             : capacity.source_time;
  for (std::size_t i = 0; i < source_lengths.size(); ++i) {
    SLUICE_CHECK(source_lengths[i] >= 0 && source_lengths[i] <= most,
                 "input {} has {} source tokens; a beam search for {} can't take it", i,
                 source_lengths[i], most);
  }
  SLUICE_CHECK(!attends(options) || model->source_time() <= capacity.source_time,
               "the model attends to {} source tokens; the beam search has room for {}",
               model->source_time(), capacity.source_time);
  check_prefixes(prefixes, source_lengths.size(),
                 std::min(options.max_length, capacity.prefix_time), model->vocabulary());
  check_forced(forced, prefixes, max_lengths_of(options, source_lengths, prefixes),
               model->vocabulary());
  const ForcedSize size = size_of(forced);
  SLUICE_CHECK(size.phrases <= capacity.phrases && size.time <= capacity.phrase_time,
               "{} forced sequences of up to {} tokens do not fit a beam search for {} of {}",
               size.phrases, size.time, capacity.phrases, capacity.phrase_time);
  SLUICE_CHECK(size.phrases == 0 || !options.without_replacement,
               "draws without replacement take no forced words");
  SLUICE_CHECK(input_ids.empty() || input_ids.size() == source_lengths.size(),
               "{} ids for {} inputs", input_ids.size(), source_lengths.size());
}

BeamSearch::Plan::Views BeamSearch::Plan::views(const kernel::Extent& extent) const {
  Views views;
  views.state = slots.state.view(arena, extent);
  views.logits = arena.tensor(slots.logits, extent.dtype, {extent.rows(), model->vocabulary()});
  views.tokens =
      arena.tensor(slots.tokens, DType::kInt32, {extent.inputs, extent.nbest, extent.max_length});
  views.mask = slots.mask.view(arena, extent.rows(), extent.max_length);
  if (attends(options)) {
    views.attention =
        arena.tensor(slots.attention, extent.dtype, {extent.rows(), extent.source_time});
  }
  if (extent.attention) {
    views.result_attention =
        arena.tensor(slots.result_attention, extent.dtype,
                     {extent.inputs, extent.nbest, extent.max_length, extent.source_time});
  }
  return views;
}

void BeamSearch::Plan::upload_extras(const Context& context, const Views& views,
                                     std::span<const std::int32_t> source_lengths, Forced forced,
                                     std::span<const std::int32_t> input_ids) const {
  const kernel::State& state = views.state;
  ConstraintMask::upload(context, options.constraints, views.mask);
  upload(context, forced, options.groups, state.phrase_tokens, state.phrase_lengths);
  if (state.source_lengths) {
    context.upload<std::int32_t>(state.source_lengths, of_groups(options, source_lengths));
  }
  if (!state.input_ids) return;
  std::vector<std::int32_t> ids(input_ids.begin(), input_ids.end());
  if (ids.empty()) {
    ids.resize(source_lengths.size());
    std::iota(ids.begin(), ids.end(), 0);
  }
  context.upload<std::int32_t>(state.input_ids, ids);
}

void BeamSearch::Plan::advance(const Context& context, const Views& views) const {
  const runtime::Span span(context, "beam_search", "select");
  const kernel::State& state = views.state;
  kernel::Extras extras;
  extras.coverage = options.coverage_penalty;
  extras.diversity = options.diversity;
  if (options.without_replacement) {
    extras.temperature = options.without_replacement->temperature;
    extras.seed = options.without_replacement->seed;
  }
  if (views.mask.mask) {
    kernels::token_mask::update(context, {options.constraints.no_repeat}, views.mask, state.step,
                                state.tokens, state.parents);
    extras.mask = views.mask.mask;
  }
  kernel::advance(context, rules, state, views.logits, views.attention, extras);
}

void BeamSearch::Plan::search(const Context& context, const Views& views) {
  const kernel::State& state = views.state;
  const Poll poll(context, options.poll_every, "beam_search");
  kernel::start(context, rules, state);
  model->start(context, state.input_of_row, state.extent.rows());
  // At the greatest length every input ends, so the steps are bounded without a look.
  const kernel::Extent& extent = state.extent;
  runtime::GraphKey key = key_of({extent.inputs, extent.max_length, extent.source_time,
                                  extent.prefix_time, extent.phrases, extent.phrase_time});
  if (options.without_replacement) key.push_back(options.without_replacement->seed);
  const auto take = [&](bool first) {
    if (first || extent.beam == 1) {
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
  options.constraints.check_tokens(model.vocabulary());
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
  SLUICE_CHECK(options.coverage_penalty == 0 || capacity.source_time > 0,
               "coverage_penalty is {}, but this model attends to no source; take 0",
               options.coverage_penalty);
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

void BeamSearch::set_seed(std::uint64_t seed) {
  if (plan_->options.without_replacement) plan_->options.without_replacement->seed = seed;
}

SearchResults BeamSearch::run(const Context& context, std::span<const std::int32_t> source_lengths,
                              Prefixes prefixes, Forced forced,
                              std::span<const std::int32_t> input_ids) {
  Plan& plan = *plan_;
  const SearchOptions& options = plan.options;
  plan.check(source_lengths, prefixes, forced, input_ids);
  SearchResults results;
  if (source_lengths.empty()) return results;

  const std::vector<std::int32_t> max_lengths = max_lengths_of(options, source_lengths, prefixes);
  // Steps that are captured serve later searches if these have the same extent.
  results.max_length = context.stream().can_capture()
                           ? longest_answer(options, plan.capacity)
                           : *std::max_element(max_lengths.begin(), max_lengths.end());
  SearchCapacity size = plan.capacity;
  size.inputs = std::ssize(source_lengths);
  size.source_time = attends(options) ? plan.model->source_time() : 0;
  size.prefix_time = longest(prefixes);
  size.phrases = size_of(forced).phrases;
  size.phrase_time = size_of(forced).time;
  const kernel::Extent extent =
      extent_of(options, size, results.max_length, plan.model->vocabulary());
  const Plan::Views views = plan.views(extent);
  context.upload<std::int32_t>(views.state.max_lengths, of_groups(options, max_lengths));
  upload(context, prefixes, options.groups, views.state.prefix, views.state.prefix_lengths);
  plan.upload_extras(context, views, source_lengths, forced, input_ids);
  plan.search(context, views);
  const runtime::Span span(context, "beam_search", "trace back");
  kernel::trace_back(context, plan.rules, views.state, views.tokens, views.result_attention);

  results.inputs = extent.inputs;
  results.groups = options.groups;
  results.nbest = options.nbest;
  results.source_lengths = of_groups(options, source_lengths);
  results.tokens = views.tokens;
  results.lengths = views.state.best_lengths;
  results.scores = views.state.best_scores;
  results.normalised_scores = views.state.best_normalised;
  results.attention = views.result_attention;
  results.faults = views.state.faults;
  return results;
}

}  // namespace sluice::decoding
