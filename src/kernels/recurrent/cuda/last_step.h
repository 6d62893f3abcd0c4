#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"

namespace sluice::kernels::recurrent::cuda {

/// cell_backward of a sequence's last step: its `dh`, which is null, is `dhn` [rows, H] in storage,
/// or nothing if that is null too.
void last_cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
                        const void* dhn);

}  // namespace sluice::kernels::recurrent::cuda
