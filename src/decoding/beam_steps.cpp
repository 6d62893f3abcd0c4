#include "decoding/beam_steps.h"

#include <limits>

#include "base/check.h"
#include "data/tokenizer.h"
#include "decoding/option_checks.h"
#include "decoding/steps.h"
#include "kernels/token_mask/token_mask.h"
#include "runtime/span.h"

namespace sluice::decoding {

namespace kernel = kernels::beam_search;
namespace token_mask = kernels::token_mask;

namespace {

kernel::Rules rules_of(const BeamStepsOptions& options) {
  kernel::Rules rules;
  rules.min_length = options.min_length;
  rules.length_penalty = options.length_penalty;
  rules.pad = data::kPadId;
  rules.bos = data::kBosId;
  rules.eos = data::kEosId;
  rules.unknown = options.allow_unknown ? -1 : data::kUnknownId;
  return rules;
}

kernel::Extent extent_of(const BeamStepsOptions& options, std::int64_t inputs, DType dtype,
                         bool masked) {
  kernel::Extent extent;
  extent.inputs = inputs;
  extent.beam = options.beam;
  extent.nbest = options.nbest;
  // An input is made to end at its maximum length, which is one step further than any is taken.
  extent.max_length = options.steps;
  extent.dtype = dtype;
  extent.masked = masked;
  return extent;
}

bool may_be_chosen(const kernel::Rules& rules, std::int64_t token) {
  return token != rules.pad && token != rules.bos && token != rules.unknown;
}

/// The mask's bits, in the layout of token_mask.h: int32 [steps * inputs, words].
std::vector<std::int32_t> bits_of(const BeamMask& mask, const kernel::Rules& rules,
                                  std::int64_t vocabulary) {
  const std::int64_t words = token_mask::words_of(vocabulary);
  std::vector<std::int32_t> bits(static_cast<std::size_t>(mask.steps * mask.inputs * words));
  for (std::int64_t row = 0; row < mask.steps * mask.inputs; ++row) {
    bool any = false, end = false;
    for (std::int64_t token = 0; token < vocabulary; ++token) {
      if (mask.allowed[static_cast<std::size_t>(row * vocabulary + token)] == 0) continue;
      auto& word = bits[static_cast<std::size_t>(row * words + token / 32)];
      word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) | 1u << (token % 32));
      end = end || token == rules.eos;
      any = any || (token != rules.eos && may_be_chosen(rules, token));
    }
    SLUICE_CHECK(any || !end || row / mask.inputs >= rules.min_length,
                 "the mask of step {} and input {} allows only the end mark, which min_length "
                 "{} forbids there; allow another token",
                 row / mask.inputs, row % mask.inputs, rules.min_length);
    SLUICE_CHECK(any || end, "the mask of step {} and input {} allows no token that may be chosen",
                 row / mask.inputs, row % mask.inputs);
  }
  return bits;
}

}  // namespace

void BeamStepsOptions::validate() const {
  check_range("beam", beam, 1, kMostRows);
  check_range("steps", steps, 1, kLongest);
  SLUICE_CHECK(nbest >= 1 && nbest <= beam,
               "nbest is {}; with beam {} it must be in 1..{}, or take a wider beam", nbest, beam,
               beam);
  SLUICE_CHECK(min_length >= 0 && min_length <= steps,
               "min_length is {}; with {} steps it must be in 0..{}", min_length, steps, steps);
  check_range("length_penalty", length_penalty);
}

struct BeamSteps::Plan {
  Plan(models::StepModel& model_in, const BeamStepsOptions& options_in, std::int64_t inputs,
       DType dtype, const BeamMask& mask, runtime::ArenaPlanner& planner,
       const runtime::Arena& arena_in)
      : model(&model_in),
        arena(arena_in),
        options(options_in),
        rules(rules_of(options_in)),
        capacity(extent_of(options_in, inputs, dtype, !mask.allowed.empty())),
        words(mask.allowed.empty() ? 0 : token_mask::words_of(model_in.vocabulary())),
        state(planner, capacity) {
    const std::int64_t rows = capacity.rows(), steps_of = options.steps;
    logits = planner.saved(dtype, {rows, model->vocabulary()});
    begin = planner.saved(DType::kInt32, {rows});
    tokens = planner.saved(DType::kInt32, {steps_of, rows});
    parents = planner.saved(DType::kInt32, {steps_of, rows});
    scores = planner.saved(DType::kFloat64, {steps_of, rows});
    taken = planner.saved(DType::kInt32, {2});
    if (words == 0) return;
    table = planner.saved(DType::kInt32, {mask.steps, mask.inputs, words});
    row_masks = planner.saved(DType::kInt32, {rows, words});
  }

  void check(const BeamRows& rows, const BeamMask& mask) const;

  models::StepModel* model;
  const runtime::Arena& arena;
  BeamStepsOptions options;
  kernel::Rules rules;
  kernel::Extent capacity;
  std::int64_t words;  ///< of a row's mask; 0: there is none
  kernel::StateSlots state;
  runtime::Slot logits, begin, tokens, parents, scores, taken, table, row_masks;
  Steps steps{};
};

void check_beam_steps(const BeamStepsOptions& options, std::int64_t inputs, const BeamMask& mask,
                      std::int64_t vocabulary) {
  options.validate();
  check_range("inputs", inputs, 1, kMostBeamRows);
  SLUICE_CHECK(options.beam <= vocabulary, "beam is {}; the vocabulary has {} tokens", options.beam,
               vocabulary);
  SLUICE_CHECK(inputs * options.beam <= kMostBeamRows,
               "{} inputs with {} beams are {} rows; a search takes at most {}", inputs,
               options.beam, inputs * options.beam, kMostBeamRows);
  if (mask.allowed.empty()) return;
  SLUICE_CHECK(mask.steps == 1 || mask.steps == options.steps,
               "the mask is of {} steps; it must be of 1 or {}", mask.steps, options.steps);
  SLUICE_CHECK(mask.inputs == 1 || mask.inputs == inputs,
               "the mask is of {} inputs; it must be of 1 or {}", mask.inputs, inputs);
  const std::size_t places =
      base::checked_mul(base::checked_mul(static_cast<std::size_t>(mask.steps),
                                          static_cast<std::size_t>(mask.inputs)),
                        static_cast<std::size_t>(vocabulary));
  SLUICE_CHECK(mask.allowed.size() == places,
               "the mask has {} places; {} steps of {} inputs with {} tokens have {}",
               mask.allowed.size(), mask.steps, mask.inputs, vocabulary, places);
}

void check_beam_rows(const BeamRows& rows, std::int64_t vocabulary) {
  for (std::size_t r = 0; r < rows.tokens.size(); ++r) {
    SLUICE_CHECK(rows.tokens[r] >= 0 && rows.tokens[r] < vocabulary,
                 "row {} begins with token {}; the vocabulary has {} tokens", r, rows.tokens[r],
                 vocabulary);
  }
  for (std::size_t r = 0; r < rows.scores.size(); ++r) {
    SLUICE_CHECK(
        rows.scores[r] < std::numeric_limits<double>::infinity(),
        "the score of row {} is {}; it must be a number, or minus infinity for no sequence", r,
        rows.scores[r]);
  }
}

void BeamSteps::Plan::check(const BeamRows& rows, const BeamMask& mask) const {
  check_beam_steps(options, rows.inputs, mask, model->vocabulary());
  const auto count = static_cast<std::size_t>(rows.inputs * options.beam);
  SLUICE_CHECK(rows.inputs <= capacity.inputs, "{} inputs do not fit a beam search for {}",
               rows.inputs, capacity.inputs);
  SLUICE_CHECK(
      rows.begin.size() == count && rows.scores.size() == count && rows.tokens.size() == count,
      "{} inputs with {} beams begin from {} rows, not from {} states, {} scores and {} tokens",
      rows.inputs, options.beam, count, rows.begin.size(), rows.scores.size(), rows.tokens.size());
  check_beam_rows(rows, model->vocabulary());
  SLUICE_ASSERT(mask.allowed.empty() == (words == 0));
}

BeamSteps::BeamSteps(models::StepModel& model, const BeamStepsOptions& options, std::int64_t inputs,
                     DType dtype, const BeamMask& mask, runtime::ArenaPlanner& planner,
                     const runtime::Arena& arena) {
  options.validate();
  SLUICE_CHECK(
      inputs * options.beam <= model.max_rows(),
      "a beam search over {} inputs with {} beams does not fit a model with room for {} rows",
      inputs, options.beam, model.max_rows());
  plan_ = std::make_unique<Plan>(model, options, inputs, dtype, mask, planner, arena);
}

BeamSteps::~BeamSteps() = default;

BeamStepsResults BeamSteps::run(const Context& context, const BeamRows& rows,
                                const BeamMask& mask) {
  Plan& plan = *plan_;
  plan.check(rows, mask);
  models::StepModel& model = *plan.model;
  const kernel::Extent extent =
      extent_of(plan.options, rows.inputs, plan.capacity.dtype, plan.capacity.masked);
  const kernel::State state = plan.state.view(plan.arena, extent);
  const Tensor logits =
      plan.arena.tensor(plan.logits, extent.dtype, {extent.rows(), model.vocabulary()});
  const Tensor begin = plan.arena.tensor(plan.begin, DType::kInt32, {extent.rows()});
  const base::Shape each{plan.options.steps, extent.rows()};
  const kernel::StepRecord record{plan.arena.tensor(plan.tokens, DType::kInt32, each),
                                  plan.arena.tensor(plan.parents, DType::kInt32, each),
                                  plan.arena.tensor(plan.scores, DType::kFloat64, each),
                                  plan.arena.tensor(plan.taken, DType::kInt32, {2})};

  context.upload<std::int32_t>(
      state.max_lengths, std::vector<std::int32_t>(static_cast<std::size_t>(rows.inputs),
                                                   static_cast<std::int32_t>(extent.max_length)));
  kernel::start(context, plan.rules, state);
  context.upload<double>(state.scores, rows.scores);
  context.upload<std::int32_t>(state.tokens, rows.tokens);
  context.upload<std::int32_t>(begin, rows.begin);
  model.start(context, begin, extent.rows());
  kernel::Extras extras;
  Tensor table;
  if (plan.words > 0) {
    table = plan.arena.tensor(plan.table, DType::kInt32, {mask.steps, mask.inputs, plan.words});
    context.upload<std::int32_t>(table, bits_of(mask, plan.rules, model.vocabulary()));
    extras.mask = plan.arena.tensor(plan.row_masks, DType::kInt32, {extent.rows(), plan.words});
  }

  const Poll poll(context, 0, "beam_search");
  const auto take = [&](bool first) {
    if (first) {
      model.step(context, state.tokens, logits, {});
    } else {
      model.step_from(context, state.parents, state.tokens, logits, {});
    }
    const runtime::Span span(context, "beam_search", "select");
    if (table) token_mask::pick(context, table, state.step, extras.mask);
    kernel::advance(context, plan.rules, state, logits, {}, extras);
    kernel::record(context, state, record);
  };
  plan.steps.take(context, model, poll, plan.options.steps, state.unfinished, plan.arena,
                  key_of({extent.inputs}), take);
  model.reorder(context, state.parents);
  return {context.download<std::int32_t>(record.taken)[0], record, state};
}

}  // namespace sluice::decoding
