#pragma once

#include "kernels/attention_decoder/cpu/buffers.h"

namespace sluice::kernels::attention_decoder::cpu {

/// Elements of workspace that pack_weights needs.
std::int64_t pack_scratch_size(const Descriptor& d);

/// Canonical weights into a leaf's layout, by all threads.
template <typename T>
void pack_weights(const Descriptor& d, const Leaf<T>& leaf, const Weights& weights,
                  const Memory& memory);

}  // namespace sluice::kernels::attention_decoder::cpu
