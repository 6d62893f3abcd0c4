#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/beam_search/beam_search.h"
#include "models/step_model.h"
#include "runtime/arena.h"

namespace sluice::decoding {

using runtime::Context;
using runtime::DType;
using runtime::Tensor;

/// Most rows of a search of single steps, inputs x beams.
inline constexpr std::int64_t kMostBeamRows = 1 << 24;

/// Options of a search of single steps.
struct BeamStepsOptions {
  std::int64_t beam = 5;
  std::int64_t steps = 1;  ///< most tokens to add
  std::int64_t nbest = 1;  ///< finished sequences kept of an input, at most `beam`
  std::int64_t min_length = 0;
  double length_penalty = 0;  ///< as SearchOptions
  bool allow_unknown = false;

  /// Throws ErrorCode::kInvalidArgument with the option, its value and what is allowed.
  void validate() const;
};

/// Where the rows of a search begin. Row i * beam + b is beam b of input i.
struct BeamRows {
  std::int64_t inputs = 0;
  /// Which row of what the model was given each row goes on from.
  std::span<const std::int32_t> begin;
  std::span<const double> scores;        ///< minus infinity where there is no prefix
  std::span<const std::int32_t> tokens;  ///< what each row is fed first
};

/// Tokens that may be chosen: [steps, inputs, vocabulary], not 0 where one may. `steps` is 1 or all
/// that are taken, `inputs` 1 or all. None given: all tokens may.
struct BeamMask {
  std::span<const std::uint8_t> allowed{};
  std::int64_t steps = 1, inputs = 1;
};

/// Throws ErrorCode::kInvalidArgument, with the number, for options, numbers of inputs and sizes of
/// a mask that can't be. Takes no memory.
void check_beam_steps(const BeamStepsOptions& options, std::int64_t inputs, const BeamMask& mask,
                      std::int64_t vocabulary);
/// The same for tokens that the vocabulary lacks and scores that are NaN or plus infinity.
void check_beam_rows(const BeamRows& rows, std::int64_t vocabulary);

/// The choices of such a search, on the device; valid until its next run.
struct BeamStepsResults {
  /// Steps that were taken: fewer than asked for if all inputs were done before.
  std::int64_t steps = 0;
  kernels::beam_search::StepRecord record;  ///< its first `steps` steps are valid
  kernels::beam_search::State state;
};

/// Beam search that begins from states, scores and tokens of the caller's, takes a number of steps
/// and keeps what each of them chose. No sequence is made to end. Otherwise it is BeamSearch.
class BeamSteps {
 public:
  /// For so many inputs and a mask of these sizes. `model` must outlive it and have room for inputs
  /// x beam rows; the memory that `planner` books must lie in `arena` whenever it runs
  /// (runtime::PlanStore).
  BeamSteps(models::StepModel& model, const BeamStepsOptions& options, std::int64_t inputs,
            DType dtype, const BeamMask& mask, runtime::ArenaPlanner& planner,
            const runtime::Arena& arena);
  ~BeamSteps();

  /// The model has been given the states to begin from. Afterwards its rows are the last step's.
  BeamStepsResults run(const Context& context, const BeamRows& rows, const BeamMask& mask = {});

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace sluice::decoding
