#include "kernels/recurrent/cuda/block_sums.h"
#include "kernels/recurrent/cuda/cell_backward_unit.h"
#include "kernels/recurrent/cuda/state_rules.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// What the gradient of h gives to the gate o and to the normalised c of one unit.
struct FromH {
  float around, d_o, d_normed;
};

template <typename Cell, typename T>
__device__ FromH gradients_from_h(const CellBackwardArgs& args, const CellBackwardExtras& extras,
                                  const CellNormBackward& norm, std::int64_t row,
                                  std::int64_t unit) {
  const std::int64_t at = row * args.hidden + unit;
  float dh = carried_dh(extras.rules, row, unit, args.dh, extras.product, at);
  if (args.dy) dh += load(static_cast<const T*>(args.dy) + row * args.dy_stride + unit);
  FromH from{};
  from.around = kept_share(extras.rules, CellMask::kZoneoutH, row, unit) * dh;
  dh -= from.around;
  const float normed = load(static_cast<const T*>(norm.norm_c) + at);
  const float input = norm.gain_c[unit] * normed + norm.shift_c[unit];
  const float gates[4]{
      0, 0, 0, load(static_cast<const T*>(args.saved) + (row * 4 + 3) * args.hidden + unit)};
  from.d_o = Cell::d_gate(3, gates, 0, input, 0, dh, 0);
  from.d_normed = Cell::whole_dc(gates, input, dh, 0);
  return from;
}

/// A block takes a row at a time.
template <typename Cell, typename T>
__global__ void __launch_bounds__(kRowBlock)
    norm_kernel(const CellBackwardArgs args, const CellBackwardExtras extras,
                const CellNormBackward norm) {
  const std::int64_t hidden = args.hidden;
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const std::int64_t first = row * hidden;
    T* d_input = static_cast<T*>(args.d_input) + row * args.d_input_stride;
    T* d_recurrent = static_cast<T*>(args.d_recurrent) + 4 * first;
    T* d_sums = static_cast<T*>(norm.d_sums) + 4 * first;
    T* d_norm_c = static_cast<T*>(norm.d_norm_c) + first;
    if (!is_active(args.lengths, row, args.t)) {
      for_own(hidden, [&](std::int64_t unit) {
        for (int g = 0; g < 4; ++g) {
          const std::int64_t column = g * hidden + unit;
          store(d_input + column, 0);
          store(d_recurrent + column, 0);
          store(d_sums + column, 0);
        }
        store(d_norm_c + unit, 0);
        args.dh_direct[first + unit] =
            carried_dh(extras.rules, row, unit, args.dh, extras.product, first + unit);
      });
      continue;
    }
    const T* norm_ih = static_cast<const T*>(norm.norm_ih) + 4 * first;
    const T* norm_hh = static_cast<const T*>(norm.norm_hh) + 4 * first;
    const T* norm_c = static_cast<const T*>(norm.norm_c) + first;
    float along_c[2] = {};
    for_own(hidden, [&](std::int64_t unit) {
      const FromH from = gradients_from_h<Cell, T>(args, extras, norm, row, unit);
      const float d = norm.gain_c[unit] * from.d_normed;
      along_c[0] += d;
      along_c[1] += d * load(norm_c + unit);
      store(d_norm_c + unit, from.d_normed);
    });
    block_sums(along_c);
    const bool cut = is_cut(extras.rules, row);
    const float units = static_cast<float>(hidden);
    float along[4] = {};
    for_own(hidden, [&](std::int64_t unit) {
      const FromH from = gradients_from_h<Cell, T>(args, extras, norm, row, unit);
      const UnitBackward values = load_unit<Cell, T>(args, row, unit);
      const float later = cut ? 0.0f : args.dc[first + unit];
      const float around = kept_share(extras.rules, CellMask::kZoneoutC, row, unit) * later;
      const float through_norm = (norm.gain_c[unit] * from.d_normed - along_c[0] / units -
                                  load(norm_c + unit) * (along_c[1] / units)) *
                                 norm.inverses[3 * row + 2];
      const float dc = later - around + through_norm;
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        const std::int64_t column = g * hidden + unit;
        store(
            d_sums + column,
            g == 3 ? from.d_o : Cell::d_gate(g, values.gates, values.c_before, values.c, 0, 0, dc));
        const float d = load(d_sums + column);
        const float d_ih = norm.gain_ih[column] * d, d_hh = norm.gain_hh[column] * d;
        along[0] += d_ih;
        along[1] += d_ih * load(norm_ih + column);
        along[2] += d_hh;
        along[3] += d_hh * load(norm_hh + column);
      }
      args.dc[first + unit] = Cell::dc_before(values.gates, dc) + around;
      args.dh_direct[first + unit] = from.around;
    });
    block_sums(along);
    const float inverse_ih = norm.inverses[3 * row], inverse_hh = norm.inverses[3 * row + 1];
    for_own(hidden, [&](std::int64_t unit) {
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        const std::int64_t column = g * hidden + unit;
        const float d = load(d_sums + column);
        store(d_input + column, (norm.gain_ih[column] * d - along[0] / (4 * units) -
                                 load(norm_ih + column) * (along[1] / (4 * units))) *
                                    inverse_ih);
        store(d_recurrent + column, (norm.gain_hh[column] * d - along[2] / (4 * units) -
                                     load(norm_hh + column) * (along[3] / (4 * units))) *
                                        inverse_hh);
      }
    });
  }
}

}  // namespace

void cell_backward_norm(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
                        const CellBackwardExtras& extras, const CellNormBackward& norm) {
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(args.rows, 65535));
  dispatch_any_cell(kind, [&](auto cell, auto tag) {
    using Cell = typename decltype(cell)::type;
    using T = typename decltype(tag)::type;
    if constexpr (Cell::kHasCellState) {
      norm_kernel<Cell, T><<<blocks, kRowBlock, 0, stream>>>(args, extras, norm);
    }
  });
  check_cell_launch();
}

}  // namespace sluice::kernels::recurrent::cuda
