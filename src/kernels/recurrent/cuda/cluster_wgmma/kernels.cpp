#include "kernels/recurrent/cuda/cluster_wgmma/kernels.h"

#include "base/check.h"
#include "kernels/recurrent/cuda/cell_kernels.h"

namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

extern const Kernels lstm_bf16, lstm_f16, lstm_tf32, gru_bf16, gru_f16;

const Kernels& kernels_of(const CellKind& kind) {
  const bool lstm = kind.cell == CellType::kLstm;
  if (kind.storage == DType::kFloat32) {
    SLUICE_ASSERT(lstm);
    return lstm_tf32;
  }
  if (kind.storage == DType::kBFloat16) return lstm ? lstm_bf16 : gru_bf16;
  SLUICE_ASSERT(kind.storage == DType::kFloat16);
  return lstm ? lstm_f16 : gru_f16;
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
