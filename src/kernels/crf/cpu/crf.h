#pragma once

#include "kernels/crf/leaves.h"

/// The CPU leaves of crf.h: arguments are checked already.
namespace sluice::kernels::crf::cpu {

void negative_log_likelihood(Stream& stream, const LossArgs& args);
void best_labels(Stream& stream, const BestLabelsArgs& args);

inline constexpr Leaves kLeaves{negative_log_likelihood, best_labels};

}  // namespace sluice::kernels::crf::cpu
