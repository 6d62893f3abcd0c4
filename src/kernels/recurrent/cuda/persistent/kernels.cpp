#include "kernels/recurrent/cuda/persistent/kernels.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::kernels::recurrent::cuda::persistent {

extern const TileKernels lstm_bf16_4, lstm_bf16_8, lstm_bf16_16, lstm_bf16_halved;
extern const TileKernels lstm_f16_4, lstm_f16_8, lstm_f16_16, lstm_f16_halved;
extern const TileKernels lstm_tf32_4, lstm_tf32_8, lstm_tf32_16;
extern const TileKernels lstm_f32_4, lstm_f32_8, lstm_f32_16;
extern const TileKernels gru_bf16_4, gru_bf16_8, gru_bf16_16, gru_bf16_halved;
extern const TileKernels gru_f16_4, gru_f16_8, gru_f16_16, gru_f16_halved;
extern const TileKernels gru_tf32_4, gru_tf32_8, gru_tf32_16;
extern const TileKernels gru_f32_4, gru_f32_8, gru_f32_16;

extern const SizeKernels lstm_bf16_extras, lstm_f16_extras, lstm_tf32_extras, lstm_f32_extras;
extern const SizeKernels gru_bf16_extras, gru_f16_extras, gru_tf32_extras, gru_f32_extras;
extern const SizeKernels lstm_bf16_norm, lstm_f16_norm;

extern const TileKernels rnn_bf16_4, rnn_bf16_8, rnn_f16_4, rnn_f16_8, rnn_tf32_4, rnn_f32_4;

namespace {

/// kClusters, and kHalved.
using BySize = std::array<const TileKernels*, kClusters.size() + 1>;
using ByArithmetic = std::array<BySize, 4>;
constexpr ByArithmetic kLstm{BySize{&lstm_bf16_4, &lstm_bf16_8, &lstm_bf16_16, &lstm_bf16_halved},
                             BySize{&lstm_f16_4, &lstm_f16_8, &lstm_f16_16, &lstm_f16_halved},
                             BySize{&lstm_tf32_4, &lstm_tf32_8, &lstm_tf32_16, nullptr},
                             BySize{&lstm_f32_4, &lstm_f32_8, &lstm_f32_16, nullptr}};
constexpr ByArithmetic kGru{BySize{&gru_bf16_4, &gru_bf16_8, &gru_bf16_16, &gru_bf16_halved},
                            BySize{&gru_f16_4, &gru_f16_8, &gru_f16_16, &gru_f16_halved},
                            BySize{&gru_tf32_4, &gru_tf32_8, &gru_tf32_16, nullptr},
                            BySize{&gru_f32_4, &gru_f32_8, &gru_f32_16, nullptr}};

using ExtrasByArithmetic = std::array<const SizeKernels*, 4>;
constexpr ExtrasByArithmetic kLstmExtras{&lstm_bf16_extras, &lstm_f16_extras, &lstm_tf32_extras,
                                         &lstm_f32_extras};
constexpr ExtrasByArithmetic kGruExtras{&gru_bf16_extras, &gru_f16_extras, &gru_tf32_extras,
                                        &gru_f32_extras};
constexpr ExtrasByArithmetic kLstmNorm{&lstm_bf16_norm, &lstm_f16_norm, nullptr, nullptr};

/// kRnnClusters.
using RnnKernels = std::array<const TileKernels*, kRnnClusters.size()>;
constexpr std::array<RnnKernels, 4> kRnn{
    RnnKernels{&rnn_bf16_4, &rnn_bf16_8}, RnnKernels{&rnn_f16_4, &rnn_f16_8},
    RnnKernels{&rnn_tf32_4, nullptr}, RnnKernels{&rnn_f32_4, nullptr}};

std::size_t index_of(const CellKind& kind) {
  if (kind.storage == DType::kBFloat16) return 0;
  if (kind.storage == DType::kFloat16) return 1;
  SLUICE_ASSERT(kind.storage == DType::kFloat32);
  return kind.tf32 ? 2 : 3;
}

}  // namespace

const TileKernels& kernels_of(const CellKind& kind, Form form, const Cluster& cluster) {
  if (gates_of(kind.cell) == 1) {
    const auto* const rnn = kRnn[index_of(kind)][cluster.blocks <= kRnnClusters[0].blocks ? 0 : 1];
    SLUICE_ASSERT(rnn != nullptr && form == Form::kPlain);
    return *rnn;
  }
  // kHalved is none of them.
  const auto found = std::find(kClusters.begin(), kClusters.end(), cluster);
  const auto size = static_cast<std::size_t>(found - kClusters.begin());
  const bool lstm = kind.cell == CellType::kLstm;
  if (form != Form::kPlain) {
    SLUICE_ASSERT(found != kClusters.end() && (lstm || form == Form::kExtras));
    const SizeKernels* kernels = (form == Form::kNorm ? kLstmNorm
                                  : lstm              ? kLstmExtras
                                                      : kGruExtras)[index_of(kind)];
    SLUICE_ASSERT(kernels != nullptr);
    return (*kernels)[size];
  }
  const TileKernels* kernels = (lstm ? kLstm : kGru)[index_of(kind)][size];
  SLUICE_ASSERT(kernels != nullptr);
  return *kernels;
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
