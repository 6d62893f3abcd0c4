#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "decoding/constraints.h"
#include "decoding/hypothesis.h"
#include "decoding/length_limits.h"
#include "decoding/prefixes.h"
#include "decoding/stream_state.h"
#include "models/step_model.h"
#include "runtime/arena.h"

namespace sluice::decoding {

/// How to draw. A token v is drawn with probability proportional to p(v)^(1 / temperature), of the
/// top_k most probable and of those the fewest that make up top_p (kernels/sampling/sampling.h).
struct SamplingOptions : LengthLimits {
  std::int64_t samples = 1;  ///< of each input
  double temperature = 1;    ///< 0: always the most probable token
  std::int64_t top_k = 0;    ///< 0: all
  double top_p = 1;          ///< in (0, 1]
  std::uint64_t seed = 1;
  /// Whether samples end with eos at the maximum length, so that scores count log p(eos) as those
  /// of beam search do; else they are cut there.
  bool force_end = true;
  Constraints constraints{};    ///< what no sample holds
  bool allow_unknown = false;   ///< whether unk may be emitted; pad and bos never are
  bool attention = false;       ///< whether to keep the attention of every emitted token
  std::int64_t poll_every = 0;  ///< as SearchOptions::poll_every

  /// Throws ErrorCode::kInvalidArgument with the option, its value and what is allowed.
  void validate() const;
};

/// Draws samples of n inputs at a time. The whole search lives on the device: per step the model's
/// step and one draw. A sample follows from its logits, the seed, its input's id and its own
/// number, whatever else is in the batch and wherever it runs.
class Sampling {
 public:
  /// Books all memory. The model must outlive the search and have room for inputs x samples rows.
  /// Throws ErrorCode::kInvalidArgument for options or a capacity that can't be.
  Sampling(const Context& context, models::StepModel& model, const SamplingOptions& options,
           const SearchCapacity& capacity);
  /// The same with the memory that `planner` books, which must lie in `arena` whenever it runs
  /// (runtime::PlanStore).
  Sampling(models::StepModel& model, const SamplingOptions& options, const SearchCapacity& capacity,
           runtime::ArenaPlanner& planner, const runtime::Arena& arena);
  /// Bytes that it takes of the device.
  static std::size_t bytes(std::int64_t vocabulary, const SamplingOptions& options,
                           const SearchCapacity& capacity);
  ~Sampling();
  Sampling(Sampling&&) noexcept;
  Sampling& operator=(Sampling&&) noexcept;

  const SamplingOptions& options() const;
  /// Of the runs from now on.
  void set_seed(std::uint64_t seed);

  /// Draws for the inputs that the model has encoded: source_lengths[i] source tokens each;
  /// input_ids[i] keys the random numbers, i if there are none. Where there are prefixes, all
  /// samples of an input begin with its own, whose log p their scores count, and its maximum length
  /// is no less. Waits for the device only to upload and to see whether all samples are done.
  SearchResults run(const Context& context, std::span<const std::int32_t> source_lengths,
                    std::span<const std::int32_t> input_ids = {}, Prefixes prefixes = {});

  /// Goes on with samples that were cut, as if they had not been, to the bit where the model's
  /// numbers are: the model must have encoded the same inputs. Hypotheses hold the tokens from here
  /// on, and scores all since the first; what had ended has no more tokens. Maximum lengths count
  /// from here on, minimum lengths from the first. Of the options the seed and the number of
  /// samples must be the state's, and there may be no constraints. Throws
  /// ErrorCode::kInvalidArgument for a state that doesn't fit.
  SearchResults resume(const Context& context, std::span<const std::int32_t> source_lengths,
                       const StreamState& from);

  /// Where the samples of the last run or resume stand. Waits for the device. Only of samples that
  /// are cut (not force_end), and all at one length.
  StreamState stream_state(const Context& context) const;

 private:
  struct Plan;
  static void check(const models::StepModel& model, const SamplingOptions& options,
                    const SearchCapacity& capacity);

  std::unique_ptr<Plan> plan_;
};

}  // namespace sluice::decoding
