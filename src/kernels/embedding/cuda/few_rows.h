#pragma once

#include "kernels/embedding/leaves.h"

namespace sluice::kernels::embedding::cuda {

/// gather_backward of float32 tables with so few rows that many copies fit in a block's shared
/// memory (some 200); false, and nothing is queued, if this one is not such, or drops out what
/// isn't of 16 bits. The order of sums depends on the shapes alone. Marks all rows.
bool add_to_few_rows(Stream& stream, const GatherBackwardArgs& args);

}  // namespace sluice::kernels::embedding::cuda
