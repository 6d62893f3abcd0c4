#include "kernels/recurrent/cuda/persistent_grid/kernels.h"

#include "base/check.h"

namespace sluice::kernels::recurrent::cuda::persistent_grid {

extern const Kernels lstm_bf16_narrow, lstm_bf16_wide, lstm_bf16_dense;
extern const Kernels lstm_bf16_deep, lstm_bf16_deep_dense, lstm_bf16_deepest;
extern const Kernels lstm_f16_narrow, lstm_f16_wide, lstm_f16_dense;
extern const Kernels lstm_f16_deep, lstm_f16_deep_dense, lstm_f16_deepest;
extern const Kernels gru_bf16_narrow, gru_bf16_wide, gru_bf16_dense;
extern const Kernels gru_bf16_deep, gru_bf16_deep_dense, gru_bf16_deepest;
extern const Kernels gru_f16_narrow, gru_f16_wide, gru_f16_dense;
extern const Kernels gru_f16_deep, gru_f16_deep_dense, gru_f16_deepest;
extern const Kernels lstm_f32_narrow, gru_f32_narrow;

namespace {

using ByForm = std::array<const Kernels*, kForms.size()>;
constexpr ByForm kLstmBf16{&lstm_bf16_narrow, &lstm_bf16_wide,       &lstm_bf16_dense,
                           &lstm_bf16_deep,   &lstm_bf16_deep_dense, &lstm_bf16_deepest};
constexpr ByForm kLstmF16{&lstm_f16_narrow, &lstm_f16_wide,       &lstm_f16_dense,
                          &lstm_f16_deep,   &lstm_f16_deep_dense, &lstm_f16_deepest};
constexpr ByForm kGruBf16{&gru_bf16_narrow, &gru_bf16_wide,       &gru_bf16_dense,
                          &gru_bf16_deep,   &gru_bf16_deep_dense, &gru_bf16_deepest};
constexpr ByForm kGruF16{&gru_f16_narrow, &gru_f16_wide,       &gru_f16_dense,
                         &gru_f16_deep,   &gru_f16_deep_dense, &gru_f16_deepest};

}  // namespace

const Kernels& kernels_of(const CellKind& kind, const Form& form) {
  if (kind.storage == DType::kFloat32) {
    SLUICE_ASSERT(form.name == kForms.front().name);
    return kind.cell == CellType::kLstm ? lstm_f32_narrow : gru_f32_narrow;
  }
  const bool bf16 = kind.storage == DType::kBFloat16;
  SLUICE_ASSERT(bf16 || kind.storage == DType::kFloat16);
  const ByForm& forms = kind.cell == CellType::kLstm ? bf16 ? kLstmBf16 : kLstmF16
                        : bf16                       ? kGruBf16
                                                     : kGruF16;
  std::size_t i = 0;
  while (kForms[i].name != form.name) ++i;
  return *forms[i];
}

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
