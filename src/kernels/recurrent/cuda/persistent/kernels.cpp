#include "kernels/recurrent/cuda/persistent/kernels.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::kernels::recurrent::cuda::persistent {

extern const TileKernels lstm_bf16_4, lstm_bf16_8, lstm_bf16_16;
extern const TileKernels lstm_f16_4, lstm_f16_8, lstm_f16_16;
extern const TileKernels gru_bf16_4, gru_bf16_8, gru_bf16_16;
extern const TileKernels gru_f16_4, gru_f16_8, gru_f16_16;

namespace {

using BySize = std::array<const TileKernels*, kClusterSizes.size()>;
constexpr BySize kLstmBf16{&lstm_bf16_4, &lstm_bf16_8, &lstm_bf16_16};
constexpr BySize kLstmF16{&lstm_f16_4, &lstm_f16_8, &lstm_f16_16};
constexpr BySize kGruBf16{&gru_bf16_4, &gru_bf16_8, &gru_bf16_16};
constexpr BySize kGruF16{&gru_f16_4, &gru_f16_8, &gru_f16_16};

}  // namespace

const TileKernels& kernels_of(const CellKind& kind, int blocks) {
  const bool bf16 = kind.storage == DType::kBFloat16;
  SLUICE_ASSERT(bf16 || kind.storage == DType::kFloat16);
  const auto size = std::find(kClusterSizes.begin(), kClusterSizes.end(), blocks);
  SLUICE_ASSERT(size != kClusterSizes.end());
  const BySize& sizes = kind.cell == CellType::kLstm ? bf16 ? kLstmBf16 : kLstmF16
                        : bf16                       ? kGruBf16
                                                     : kGruF16;
  return *sizes[static_cast<std::size_t>(size - kClusterSizes.begin())];
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
