#include "kernels/recurrent/cuda/persistent_grid/kernels.h"

#include "base/check.h"

namespace sluice::kernels::recurrent::cuda::persistent_grid {

extern const TileKernels lstm_bf16_8, lstm_bf16_16, lstm_bf16_12;
extern const TileKernels lstm_f16_8, lstm_f16_16, lstm_f16_12;
extern const TileKernels gru_bf16_8, gru_bf16_16, gru_bf16_12;
extern const TileKernels gru_f16_8, gru_f16_16, gru_f16_12;

namespace {

using ByForm = std::array<const TileKernels*, kForms.size()>;
constexpr ByForm kLstmBf16{&lstm_bf16_8, &lstm_bf16_16, &lstm_bf16_12};
constexpr ByForm kLstmF16{&lstm_f16_8, &lstm_f16_16, &lstm_f16_12};
constexpr ByForm kGruBf16{&gru_bf16_8, &gru_bf16_16, &gru_bf16_12};
constexpr ByForm kGruF16{&gru_f16_8, &gru_f16_16, &gru_f16_12};

}  // namespace

const TileKernels& kernels_of(const CellKind& kind, const Form& form) {
  const bool bf16 = kind.storage == DType::kBFloat16;
  SLUICE_ASSERT(bf16 || kind.storage == DType::kFloat16);
  const ByForm& forms = kind.cell == CellType::kLstm ? bf16 ? kLstmBf16 : kLstmF16
                        : bf16                       ? kGruBf16
                                                     : kGruF16;
  std::size_t i = 0;
  while (kForms[i].units != form.units) ++i;
  return *forms[i];
}

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
