#include "kernels/recurrent/cuda/streamed/kernels.h"

#include "base/check.h"
#include "kernels/recurrent/cuda/cell_kernels.h"

namespace sluice::kernels::recurrent::cuda::streamed {

extern const Kernels lstm_bf16, lstm_f16, gru_bf16, gru_f16;

const Kernels& kernels_of(const CellKind& kind) {
  const bool bf16 = kind.storage == DType::kBFloat16;
  SLUICE_ASSERT(bf16 || kind.storage == DType::kFloat16);
  if (kind.cell == CellType::kLstm) return bf16 ? lstm_bf16 : lstm_f16;
  return bf16 ? gru_bf16 : gru_f16;
}

}  // namespace sluice::kernels::recurrent::cuda::streamed
