#pragma once

#include <memory>
#include <string_view>

#include "kernels/attention_decoder/cpu/forward.h"

namespace sluice::kernels::attention_decoder::cpu {

/// The plan over these leaves, which must live as long as queued work. Uses at most as many threads
/// as OpenMP offers now. A row's outputs have the
/// same bits alone and in any batch where the leaf's products do; weight gradients repeat to the
/// bit for the same number of threads.
template <typename T>
std::unique_ptr<Plan> make_plan(const Descriptor& descriptor, std::string_view name,
                                Leaves<T> leaf);

}  // namespace sluice::kernels::attention_decoder::cpu
