#include "kernels/recurrent/cuda/persistent/kernels.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/recurrent/cuda/cell_kernels.h"

namespace sluice::kernels::recurrent::cuda::persistent {

extern const PlainKernels lstm_bf16, lstm_f16, lstm_tf32, lstm_f32;
extern const PlainKernels gru_bf16, gru_f16, gru_tf32, gru_f32;
extern const SizeKernels lstm_bf16_extras, lstm_f16_extras, lstm_tf32_extras, lstm_f32_extras;
extern const SizeKernels gru_bf16_extras, gru_f16_extras, gru_tf32_extras, gru_f32_extras;
extern const SizeKernels lstm_bf16_norm, lstm_f16_norm;
extern const RnnKernels rnn_bf16, rnn_f16, rnn_tf32, rnn_f32;

namespace {

template <typename Kernels>
using ByArithmetic = std::array<const Kernels*, 4>;
constexpr ByArithmetic<PlainKernels> kLstm{&lstm_bf16, &lstm_f16, &lstm_tf32, &lstm_f32};
constexpr ByArithmetic<PlainKernels> kGru{&gru_bf16, &gru_f16, &gru_tf32, &gru_f32};
constexpr ByArithmetic<SizeKernels> kLstmExtras{&lstm_bf16_extras, &lstm_f16_extras,
                                                &lstm_tf32_extras, &lstm_f32_extras};
constexpr ByArithmetic<SizeKernels> kGruExtras{&gru_bf16_extras, &gru_f16_extras, &gru_tf32_extras,
                                               &gru_f32_extras};
constexpr ByArithmetic<SizeKernels> kLstmNorm{&lstm_bf16_norm, &lstm_f16_norm, nullptr, nullptr};
constexpr ByArithmetic<RnnKernels> kRnn{&rnn_bf16, &rnn_f16, &rnn_tf32, &rnn_f32};

std::size_t index_of(const CellKind& kind) {
  if (kind.storage == DType::kBFloat16) return 0;
  if (kind.storage == DType::kFloat16) return 1;
  SLUICE_ASSERT(kind.storage == DType::kFloat32);
  return kind.tf32 ? 2 : 3;
}

}  // namespace

const TileKernels& kernels_of(const CellKind& kind, Form form, const Cluster& cluster) {
  if (gates_of(kind.cell) == 1) {
    SLUICE_ASSERT(form == Form::kPlain);
    return (*kRnn[index_of(kind)])[cluster.blocks <= kRnnClusters[0].blocks ? 0 : 1];
  }
  // kHalved is none of them: its kernels come behind theirs.
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
  return (*(lstm ? kLstm : kGru)[index_of(kind)])[size];
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
