#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decoding/length_limits.h"
#include "runtime/context.h"

namespace sluice::decoding {

/// What the outputs of inputs have to begin with: none, or one for each input, which may be empty.
using Prefixes = std::span<const std::vector<std::int32_t>>;

/// Throws ErrorCode::kInvalidArgument, naming the input, unless there are as many prefixes as
/// inputs or none, none has more than `most` tokens, and tokens are in the vocabulary and not pad,
/// bos or eos.
void check_prefixes(Prefixes prefixes, std::size_t inputs, std::int64_t most,
                    std::int64_t vocabulary);

/// Tokens of the longest.
std::int64_t longest(Prefixes prefixes);

/// Most tokens of each input's outputs: what the limits say, or its prefix if that is longer.
std::vector<std::int32_t> max_lengths_of(const LengthLimits& limits,
                                         std::span<const std::int32_t> source_lengths,
                                         Prefixes prefixes);

/// tokens int32 [inputs, longest(prefixes)], lengths int32 [inputs]: prefix i for each of `groups`
/// inputs. Nothing if there are none.
void upload(const runtime::Context& context, Prefixes prefixes, std::int64_t groups,
            const runtime::Tensor& tokens, const runtime::Tensor& lengths);

}  // namespace sluice::decoding
