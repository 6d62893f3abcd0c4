#include "kernels/recurrent/cuda/persistent_grid/kernels.h"

#include "base/check.h"

namespace sluice::kernels::recurrent::cuda::persistent_grid {

extern const TileKernels lstm_bf16_narrow, lstm_bf16_wide, lstm_bf16_deep;
extern const TileKernels lstm_f16_narrow, lstm_f16_wide, lstm_f16_deep;
extern const TileKernels gru_bf16_narrow, gru_bf16_wide, gru_bf16_deep;
extern const TileKernels gru_f16_narrow, gru_f16_wide, gru_f16_deep;

namespace {

using ByForm = std::array<const TileKernels*, kForms.size()>;
constexpr ByForm kLstmBf16{&lstm_bf16_narrow, &lstm_bf16_wide, &lstm_bf16_deep};
constexpr ByForm kLstmF16{&lstm_f16_narrow, &lstm_f16_wide, &lstm_f16_deep};
constexpr ByForm kGruBf16{&gru_bf16_narrow, &gru_bf16_wide, &gru_bf16_deep};
constexpr ByForm kGruF16{&gru_f16_narrow, &gru_f16_wide, &gru_f16_deep};

}  // namespace

const TileKernels& kernels_of(const CellKind& kind, const Form& form) {
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
