#include "kernels/recurrent/cuda/persistent/kernels.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::kernels::recurrent::cuda::persistent {

extern const TileKernels lstm_bf16_4, lstm_bf16_8, lstm_bf16_16;
extern const TileKernels lstm_f16_4, lstm_f16_8, lstm_f16_16;
extern const TileKernels lstm_tf32_4, lstm_tf32_8, lstm_tf32_16;
extern const TileKernels lstm_f32_4, lstm_f32_8, lstm_f32_16;
extern const TileKernels gru_bf16_4, gru_bf16_8, gru_bf16_16;
extern const TileKernels gru_f16_4, gru_f16_8, gru_f16_16;
extern const TileKernels gru_tf32_4, gru_tf32_8, gru_tf32_16;
extern const TileKernels gru_f32_4, gru_f32_8, gru_f32_16;

namespace {

using BySize = std::array<const TileKernels*, kClusterSizes.size()>;
using ByArithmetic = std::array<BySize, 4>;
constexpr ByArithmetic kLstm{BySize{&lstm_bf16_4, &lstm_bf16_8, &lstm_bf16_16},
                             BySize{&lstm_f16_4, &lstm_f16_8, &lstm_f16_16},
                             BySize{&lstm_tf32_4, &lstm_tf32_8, &lstm_tf32_16},
                             BySize{&lstm_f32_4, &lstm_f32_8, &lstm_f32_16}};
constexpr ByArithmetic kGru{
    BySize{&gru_bf16_4, &gru_bf16_8, &gru_bf16_16}, BySize{&gru_f16_4, &gru_f16_8, &gru_f16_16},
    BySize{&gru_tf32_4, &gru_tf32_8, &gru_tf32_16}, BySize{&gru_f32_4, &gru_f32_8, &gru_f32_16}};

std::size_t index_of(const CellKind& kind) {
  if (kind.storage == DType::kBFloat16) return 0;
  if (kind.storage == DType::kFloat16) return 1;
  SLUICE_ASSERT(kind.storage == DType::kFloat32);
  return kind.tf32 ? 2 : 3;
}

}  // namespace

const TileKernels& kernels_of(const CellKind& kind, int blocks) {
  const auto size = std::find(kClusterSizes.begin(), kClusterSizes.end(), blocks);
  SLUICE_ASSERT(size != kClusterSizes.end());
  const ByArithmetic& all = kind.cell == CellType::kLstm ? kLstm : kGru;
  return *all[index_of(kind)][static_cast<std::size_t>(size - kClusterSizes.begin())];
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
