#pragma once

#include <cstdint>
#include <vector>

#include "runtime/arena.h"
#include "runtime/tensor.h"

namespace sluice::kernels::token_mask {

using runtime::DType;
using runtime::Tensor;

/// Words of a row's mask, 32 tokens each.
constexpr std::int64_t words_of(std::int64_t vocabulary) { return (vocabulary + 31) / 32; }

struct Extent {
  std::int64_t rows = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_length = 0;     ///< most tokens of a row
  std::int64_t phrases = 0;        ///< sequences of two or more tokens that no row may hold
  std::int64_t phrase_tokens = 0;  ///< of all of them together
};

/// What the rows of a search may go on with, on the device.
struct State {
  Extent extent;

  Tensor allowed;        ///< int32 [words]: bits of the tokens that may be used at all
  Tensor phrase_ends;    ///< int32 [phrases]: where each phrase ends in `phrase_tokens`
  Tensor phrase_tokens;  ///< int32 [phrase_tokens]: the phrases, one behind the other

  Tensor history;  ///< int32 [2, rows, max_length]: each row's tokens, at even and at odd steps
  Tensor mask;     ///< int32 [rows, words]: written by `update`
};

/// The memory of a state, booked for a capacity.
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

}  // namespace sluice::kernels::token_mask
