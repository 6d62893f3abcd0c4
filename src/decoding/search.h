#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decoding/constraints.h"
#include "decoding/hypothesis.h"
#include "decoding/length_limits.h"
#include "decoding/prefixes.h"
#include "models/step_model.h"
#include "runtime/arena.h"

namespace sluice::decoding {

/// When an input is done.
enum class StopRule {
  /// When no live beam can still beat the worst of the nbest hypotheses kept, whatever it goes on
  /// with: the best hypotheses that this beam width can see, under any length penalty.
  kBestFound,
  /// As kBestFound, but also when `beam` hypotheses have finished: fewer steps under a length
  /// penalty, but a longer hypothesis with a better normalised score may be missed.
  kBeamFull,
};

/// Draws without replacement ("Stochastic Beams and Where to Find Them", Kool et al. 2019): the
/// beams are the first so many of a sequence of draws, none of which is drawn twice. A hypothesis
/// is as probable to be drawn next as p^(1 / temperature) of its tokens make it among what is left.
struct WithoutReplacement {
  double temperature = 1;  ///< above 0
  std::uint64_t seed = 1;
};

/// What to search for.
///
/// The search keeps `beam` live prefixes an input. At each step the best continuations by the sum
/// of log p are looked at in order: of the first `beam`, those that end in eos finish; the first
/// `beam` others live on. Ties go to the lower beam, then to the lower token. Every hypothesis ends
/// in eos, for at the maximum length nothing else is allowed, and its score counts log p(eos). Beam
/// 1 is greedy search: it ends with the first eos, whatever the length penalty.
struct SearchOptions : LengthLimits {
  std::int64_t beam = 5;
  std::int64_t nbest = 1;  ///< hypotheses kept of an input, at most `beam`
  /// alpha >= 0 of the length penalty of Wu et al. 2016 ("Google's Neural Machine Translation
  /// System", eq. 14): finished hypotheses compete by score / ((5 + length) / 6)^alpha, where here
  /// length counts eos too. 0 is no penalty.
  double length_penalty = 0;
  StopRule stop = StopRule::kBestFound;
  bool allow_unknown = false;  ///< whether unk may be emitted; pad and bos never are
  bool attention = false;      ///< whether to keep the attention of every emitted token

  Constraints constraints{};  ///< what no hypothesis holds
  /// beta >= 0 of Wu et al. 2016, eq. 14: finished hypotheses compete by score / length penalty +
  /// beta * sum over source tokens of log min(sum over steps of attention, 1), eos's step counted.
  double coverage_penalty = 0;
  /// Searches that share the beams evenly, each with hypotheses of its own (Vijayakumar et al.
  /// 2016, "Diverse Beam Search"). At each step a group ranks its candidates by their score less
  /// `diversity` for each row of the groups before it that goes on with the same token.
  std::int64_t groups = 1;
  double diversity = 0.5;
  /// Draw instead, in order of the draws: `beam` hypotheses at most, of which `nbest` are given.
  /// Length penalty and coverage then say nothing.
  std::optional<WithoutReplacement> without_replacement{};

  /// Steps between two looks at the device's count of unfinished inputs; a look waits for the
  /// device. Steps after the last input is done change nothing. 0: 1 where the host runs the
  /// kernels, else 8.
  std::int64_t poll_every = 0;

  /// Throws ErrorCode::kInvalidArgument with the option, its value and what is allowed.
  void validate() const;
};

/// Beam search over n inputs x k beams at a time. The whole search lives on the device: per step
/// the model's step, one selection, one reordering. What an input gets does not depend on the
/// others in the batch, to the bit if the model's logits don't.
class BeamSearch {
 public:
  /// Books all memory. The model must outlive the search and have room for inputs x beam rows.
  /// Throws ErrorCode::kInvalidArgument for options or a capacity that can't be.
  BeamSearch(const Context& context, models::StepModel& model, const SearchOptions& options,
             const SearchCapacity& capacity);
  /// The same with the memory that `planner` books, which must lie in `arena` whenever it runs
  /// (runtime::PlanStore).
  BeamSearch(models::StepModel& model, const SearchOptions& options, const SearchCapacity& capacity,
             runtime::ArenaPlanner& planner, const runtime::Arena& arena);
  /// Bytes that it takes of the device.
  static std::size_t bytes(std::int64_t vocabulary, const SearchOptions& options,
                           const SearchCapacity& capacity);
  ~BeamSearch();
  BeamSearch(BeamSearch&&) noexcept;
  BeamSearch& operator=(BeamSearch&&) noexcept;

  const SearchOptions& options() const;

  /// Decodes the inputs that the model has encoded: source_lengths[i] source tokens each. Where
  /// there are prefixes, all hypotheses of an input begin with its own, whose log p their scores
  /// count, and its maximum length is no less. Waits for the device only to upload lengths and
  /// prefixes and to see whether all inputs are done.
  ///
  /// `forced`: sequences of tokens that an input's hypotheses must hold, wherever ("Fast Lexically
  /// Constrained Decoding with Dynamic Beam Allocation", Post and Vilar 2018; beam_search.h).
  /// `input_ids` key random numbers, the inputs' places if there are none.
  SearchResults run(const Context& context, std::span<const std::int32_t> source_lengths,
                    Prefixes prefixes = {}, Forced forced = {},
                    std::span<const std::int32_t> input_ids = {});
  /// Of the runs from now on that draw without replacement.
  void set_seed(std::uint64_t seed);

 private:
  struct Slots;
  struct Plan;
  static void check(const models::StepModel& model, const SearchOptions& options,
                    const SearchCapacity& capacity);

  std::unique_ptr<Plan> plan_;
};

}  // namespace sluice::decoding
