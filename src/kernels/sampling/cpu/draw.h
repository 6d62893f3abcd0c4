#pragma once

#include <cstdint>

#include "kernels/sampling/weights.h"

namespace sluice::kernels::sampling::cpu {

/// Whose draw it is.
struct DrawKey {
  std::uint64_t seed;
  std::uint32_t input_id, sample, step;
};

/// A token of logits[vocabulary] that may follow; -1 if none has a finite logit.
template <typename T>
std::int32_t draw_token(const T* logits, std::int64_t vocabulary, const Allowed& allowed,
                        const Distribution& distribution, const DrawKey& key);

}  // namespace sluice::kernels::sampling::cpu
