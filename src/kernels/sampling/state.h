#pragma once

#include <cstdint>
#include <vector>

#include "runtime/arena.h"
#include "runtime/tensor.h"

namespace sluice::kernels::sampling {

using runtime::DType;
using runtime::Tensor;

/// How large a search is.
struct Extent {
  std::int64_t inputs = 0;
  std::int64_t samples = 0;       ///< of each input
  std::int64_t max_length = 0;    ///< the longest maximum length of an input
  std::int64_t prefix_time = 0;   ///< the longest prefix that an input's samples begin with
  std::int64_t source_time = 0;   ///< width of the attention, if kept
  bool attention = false;         ///< whether to keep it
  DType dtype = DType::kFloat32;  ///< of logits and attention: float32 or float64

  std::int64_t rows() const { return inputs * samples; }
};

/// What has become of a row.
enum Status : std::int32_t {
  kLive = 0,
  kEnded = 1,       ///< with eos
  kCut = 2,         ///< at the maximum length, without eos
  kImpossible = 3,  ///< its logits let nothing follow
};

/// A search on the device. rows = inputs * samples.
struct State {
  Extent extent;

  Tensor step;            ///< int32 [1]: steps taken
  Tensor first_step;      ///< int32 [1]: tokens that the samples had before; 0 unless gone on with
  Tensor unfinished;      ///< int32 [1]: live rows; what the host polls
  Tensor max_lengths;     ///< int32 [inputs]: most tokens of each input's samples, by this search
  Tensor input_ids;       ///< int32 [inputs]: keys of the random numbers
  Tensor prefix;          ///< int32 [inputs, prefix_time]: what samples begin with
  Tensor prefix_lengths;  ///< int32 [inputs]; read if prefix_time > 0
  Tensor faults;          ///< int32 [inputs]: 1 + the step whose logits were refused, or 0

  Tensor input_of_row;  ///< int32 [rows]
  Tensor tokens;        ///< int32 [rows]: last token of each sample
  Tensor status;        ///< int32 [rows]: Status
  Tensor lengths;       ///< int32 [rows]: tokens so far, eos not counted; -1 if kImpossible
  Tensor scores;        ///< float64 [rows]: sum of log p, eos counted
  Tensor emitted;       ///< int32 [rows, max_length], pad after the end
  Tensor attention;     ///< [rows, max_length, source_time], zero after the end; absent unless kept

  Tensor arrivals;  ///< int32 [1]: scratch of `advance`, zero between its calls
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

}  // namespace sluice::kernels::sampling
