#pragma once

#include <cstdint>
#include <vector>

#include "runtime/arena.h"
#include "runtime/tensor.h"

namespace sluice::kernels::beam_search {

using runtime::DType;
using runtime::Tensor;

/// How large a search is.
struct Extent {
  std::int64_t inputs = 0;
  std::int64_t beam = 0;
  std::int64_t nbest = 0;
  std::int64_t max_length = 0;    ///< the longest maximum length of an input
  std::int64_t source_time = 0;   ///< width of the attention, if kept
  bool attention = false;         ///< whether to keep it
  DType dtype = DType::kFloat32;  ///< of logits and attention: float32 or float64
  std::int64_t prefix_time = 0;   ///< the longest prefix that an input's hypotheses begin with

  // Extras (beam_search.h); a plain search has none of these.
  std::int64_t groups = 1;       ///< searches that heed each other: inputs i * groups and following
  std::int64_t phrases = 0;      ///< token sequences that an input's hypotheses must hold
  std::int64_t phrase_time = 0;  ///< tokens of the longest
  bool coverage = false;         ///< whether hypotheses compete by coverage too
  std::int64_t sampled_vocabulary = 0;  ///< tokens to draw from without replacement; 0: no draw
  bool masked = false;                  ///< whether steps may be given a mask

  std::int64_t rows() const { return inputs * beam; }
  bool is_plain() const {
    return groups == 1 && phrases == 0 && !coverage && sampled_vocabulary == 0 && !masked;
  }
  /// Candidates of a row. Earlier groups may have put as many tokens back as they have beams.
  std::int64_t width() const { return groups * beam + 1 + phrases; }
};

/// A search on the device. rows = inputs * beam.
struct State {
  Extent extent;

  Tensor step;            ///< int32 [inputs]: steps taken so far, the same for all
  Tensor unfinished;      ///< int32 [1]: inputs that are not done; what the host polls
  Tensor max_lengths;     ///< int32 [inputs]: most tokens of each input
  Tensor prefix;          ///< int32 [inputs, prefix_time]: what hypotheses begin with
  Tensor prefix_lengths;  ///< int32 [inputs]; read if prefix_time > 0
  Tensor done;            ///< int32 [inputs]: 0 or 1
  Tensor faults;          ///< int32 [inputs]: 1 + the step whose logits were refused, or 0

  Tensor input_of_row;  ///< int32 [rows]
  Tensor tokens;        ///< int32 [rows]: last token of each prefix
  Tensor parents;       ///< int32 [rows]: row that each prefix continues
  Tensor scores;        ///< float64 [rows]: sum of log p; minus infinity where there is no prefix

  Tensor history_tokens;   ///< int32 [max_length, rows]: `tokens` of every step
  Tensor history_parents;  ///< int32 [max_length, rows]
  Tensor
      history_attention;  ///< [max_length, rows, source_time]: by row before the step's selection

  Tensor finished;         ///< int32 [inputs]: hypotheses that ever finished
  Tensor best_scores;      ///< float64 [inputs, nbest]: of those kept, best normalised first
  Tensor best_normalised;  ///< float64 [inputs, nbest]
  Tensor best_lengths;     ///< int32 [inputs, nbest]: tokens without eos, -1 for none
  Tensor best_rows;        ///< int32 [inputs, nbest]: row of the last token

  Tensor candidate_scores;  ///< float64 [rows, width]: scratch of `advance`
  Tensor candidate_tokens;  ///< int32 [rows, width]: scratch of `advance`
  Tensor arrivals;          ///< int32 [inputs]: scratch of `advance`, zero between its calls

  // Absent unless the extent asks for them. A first dimension of 2 stands for rows after even and
  // after odd steps.
  Tensor phrase_tokens;    ///< int32 [inputs, phrases, phrase_time]: read; in the vocabulary
  Tensor phrase_lengths;   ///< int32 [inputs, phrases]: read; 0..phrase_time, 0: none
  Tensor progress;         ///< int32 [2, rows, phrases]: as forced.h has it
  Tensor source_lengths;   ///< int32 [inputs]: read; 0..source_time
  Tensor coverage;         ///< float64 [2, rows, source_time]: sums of attention
  Tensor input_ids;        ///< int32 [inputs]: read; keys of the random numbers of draws
  Tensor perturbed;        ///< float64 [rows]: log q of each prefix and its noise
  Tensor log_q;            ///< float64 [rows]: log of the probability of drawing each prefix
  Tensor noisy;            ///< float64 [rows, sampled_vocabulary]: scratch of `advance`
  Tensor candidate_keys;   ///< float64 [rows, width]: scratch of `advance`: what candidates rank by
  Tensor candidate_log_q;  ///< float64 [rows, width]: scratch of `advance`
  Tensor candidate_left;   ///< int32 [rows, width]: scratch of `advance`: tokens of phrases to come
  Tensor candidate_order;  ///< int32 [rows, width]: scratch of `advance` on the CPU: what it sorts
  Tensor bank_uses;        ///< int32 [inputs, phrases * phrase_time + 1]: scratch of `advance`
};

/// The memory of a search, booked for a capacity.
class StateSlots {
 public:
  StateSlots() = default;
  StateSlots(runtime::ArenaPlanner& planner, const Extent& capacity);
  /// A state of this extent, of which nothing may exceed the capacity.
  State view(const runtime::Arena& arena, const Extent& extent) const;

 private:
  std::vector<runtime::Slot> slots_;
};

/// Throws ErrorCode::kInvalidArgument if a tensor of the state has not the dtype and shape that its
/// extent asks for.
void check_state(const State& state, const char* operation);

}  // namespace sluice::kernels::beam_search
