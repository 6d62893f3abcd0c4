#include "kernels/recurrent/cuda/persistent_grid/kernels.h"

#include "base/check.h"
#include "kernels/recurrent/cuda/cell_kernels.h"

namespace sluice::kernels::recurrent::cuda::persistent_grid {

extern const FormKernels lstm_bf16, lstm_f16, lstm_f32, gru_bf16, gru_f16, gru_f32;

namespace {

const FormKernels& kernels_of(const CellKind& kind) {
  const bool lstm = kind.cell == CellType::kLstm;
  if (kind.storage == DType::kFloat32) return lstm ? lstm_f32 : gru_f32;
  if (kind.storage == DType::kBFloat16) return lstm ? lstm_bf16 : gru_bf16;
  SLUICE_ASSERT(kind.storage == DType::kFloat16);
  return lstm ? lstm_f16 : gru_f16;
}

}  // namespace

const Kernels& kernels_of(const CellKind& kind, const Form& form) {
  std::size_t i = 0;
  while (std::string_view(kForms[i].name) != form.name) ++i;
  const Kernels& kernels = kernels_of(kind)[i];
  SLUICE_ASSERT(kernels.forward.kernel != nullptr);
  return kernels;
}

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
