#pragma once

#include <cstdint>

#include "kernels/token_mask/state.h"
#include "runtime/context.h"
#include "runtime/tensor.h"

/// Which tokens may follow each row of a search, as a mask on the device: token v of row r may if
/// bit v % 32 of mask[r, v / 32] is 1. Beam search reads the mask (beam_search.h); sampling reads
/// logits to which `apply` has applied it.
///
/// No operation waits for the device or reads from it, and none depends on a step number held by
/// the host.
namespace sluice::kernels::token_mask {

using runtime::Context;

struct Rules {
  /// No row may hold the same sequence of so many tokens twice; 0: it may.
  std::int64_t no_repeat = 0;
};

/// Writes the mask for what follows. step int32 [1 or more], of which the first is read: tokens
/// that each row holds by now. tokens int32 [rows]: the last of them; parents int32 [rows]: the row
/// of the call before that each row continues, absent where rows stay. Calls follow each other from
/// step 0 on, where tokens and parents are not read, and none is left out.
///
/// A token may follow if it is in `allowed`, is not the last of a phrase whose other tokens the row
/// ends in, and, with no_repeat n, does not make the row's last n tokens a sequence that it holds
/// already.
void update(const Context& context, const Rules& rules, const State& state, const Tensor& step,
            const Tensor& tokens, const Tensor& parents);

/// mask [rows, words] = what int32 [steps, inputs, words] has for the step that `step` says, int32
/// [1 or more], of which the first is read; the last one, where it has fewer. Rows of an input lie
/// next to each other, as many for each. With one input it is that of all rows.
void pick(const Context& context, const Tensor& of_steps, const Tensor& step, const Tensor& mask);

/// out = logits [rows, V], float32 or float64, with minus infinity where the mask has no bit.
void apply(const Context& context, const Tensor& mask, const Tensor& logits, const Tensor& out);

/// Throws ErrorCode::kInvalidArgument unless it is the mask of so many rows and tokens.
void check_mask(const Tensor& mask, std::int64_t rows, std::int64_t vocabulary,
                const char* operation);

}  // namespace sluice::kernels::token_mask
