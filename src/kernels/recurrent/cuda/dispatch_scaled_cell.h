#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/cells.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda {

/// dispatch_cell of those whose products are of scaled float16: calls body(TypeTag<Cell>{}).
template <typename Body>
void dispatch_scaled_cell(const CellKind& kind, const Body& body) {
  SLUICE_ASSERT(kind.storage == DType::kFloat32);
  if (kind.cell == CellType::kLstm) return body(base::TypeTag<LstmCell<FastMath>>{});
  SLUICE_ASSERT(kind.cell == CellType::kGru);
  body(base::TypeTag<GruCell<FastMath>>{});
}

}  // namespace sluice::kernels::recurrent::cuda
