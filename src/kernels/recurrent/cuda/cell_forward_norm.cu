#include "kernels/recurrent/cuda/block_sums.h"
#include "kernels/recurrent/cuda/forward_extras_unit.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

struct Moments {
  float mean, inverse;  ///< 1 / sqrt(variance + epsilon)
};

/// Of two arrays at once.
struct TwoMoments {
  Moments first, second;
};

__device__ TwoMoments moments_of(const float* first, const float* second, std::int64_t count) {
  const auto size = static_cast<float>(count);
  float sums[2] = {};
  for_own(count, [&](std::int64_t i) {
    sums[0] += first[i];
    sums[1] += second[i];
  });
  block_sums(sums);
  const float means[2]{sums[0] / size, sums[1] / size};
  float squares[2] = {};
  for_own(count, [&](std::int64_t i) {
    const float a = first[i] - means[0], b = second[i] - means[1];
    squares[0] += a * a;
    squares[1] += b * b;
  });
  block_sums(squares);
  return {{means[0], 1.0f / sqrtf(squares[0] / size + kNormEpsilon)},
          {means[1], 1.0f / sqrtf(squares[1] / size + kNormEpsilon)}};
}

/// A block takes a row at a time.
template <typename Cell, typename T>
__global__ void __launch_bounds__(kRowBlock)
    norm_kernel(const CellForwardArgs args, const CellForwardExtras extras,
                const CellNormForward norm) {
  const std::int64_t hidden = args.hidden;
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const std::int64_t first = row * hidden;
    T* norm_c = norm.norm_c ? static_cast<T*>(norm.norm_c) + first : nullptr;
    if (!is_active(args.lengths, row, args.t)) {
      for_own(hidden, [&](std::int64_t unit) {
        const UnitForward before = state_before<Cell, T>(args, row, unit);
        skip_unit<Cell, T>(args, extras, row, unit, before);
        if (norm_c == nullptr) return;
        // What has no gradient must be finite.
        store(norm_c + unit, 0);
        for (int g = 0; g < 4; ++g) {
          store(static_cast<T*>(norm.norm_ih) + 4 * first + g * hidden + unit, 0);
          store(static_cast<T*>(norm.norm_hh) + 4 * first + g * hidden + unit, 0);
        }
      });
      continue;
    }
    const float* x = args.input + row * args.input_stride;
    float* r = norm.products + 4 * first;
    const TwoMoments of = moments_of(x, r, 4 * hidden);
    // A unit's products make room for what is to be read again: fresh c, and o.
    float* c_fresh = r + 2 * hidden;
    float* o = r + 3 * hidden;
    float sums[1] = {};
    for_own(hidden, [&](std::int64_t unit) {
      float gates[4];
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        const std::int64_t column = g * hidden + unit;
        const float from_x = (x[column] - of.first.mean) * of.first.inverse;
        const float from_h = (r[column] - of.second.mean) * of.second.inverse;
        gates[g] = Cell::gate(g, norm.gain_ih[column] * from_x + args.bias[column],
                              norm.gain_hh[column] * from_h, 0, gates);
        if (norm_c == nullptr) continue;
        store(static_cast<T*>(norm.norm_ih) + 4 * first + column, from_x);
        store(static_cast<T*>(norm.norm_hh) + 4 * first + column, from_h);
        save_gate<Cell>(g, static_cast<T*>(args.saved) + 4 * first + column, gates[g]);
      }
      const float before = args.c_before[first + unit], c = Cell::next_c(gates, before);
      carry_c(args, extras, row, unit, before, c);
      c_fresh[unit] = c;
      o[unit] = gates[3];
      sums[0] += c;
    });
    block_sums(sums);
    const float mean = sums[0] / static_cast<float>(hidden);
    float squares[1] = {};
    for_own(hidden, [&](std::int64_t unit) {
      squares[0] += (c_fresh[unit] - mean) * (c_fresh[unit] - mean);
    });
    block_sums(squares);
    const float inverse = 1.0f / sqrtf(squares[0] / static_cast<float>(hidden) + kNormEpsilon);
    for_own(hidden, [&](std::int64_t unit) {
      const float c = (c_fresh[unit] - mean) * inverse;
      // The cell's own function of c, which is normalised now.
      const float gates[4]{0, 0, 0, o[unit]};
      const float h = Cell::next_h(gates, norm.gain_c[unit] * c + norm.shift_c[unit], 0);
      carry_h<T>(args, extras, row, unit, load(static_cast<const T*>(args.h_before) + first + unit),
                 h);
      if (norm_c) store(norm_c + unit, c);
    });
    if (norm.inverses && threadIdx.x == 0) {
      norm.inverses[3 * row] = of.first.inverse;
      norm.inverses[3 * row + 1] = of.second.inverse;
      norm.inverses[3 * row + 2] = inverse;
    }
  }
}

}  // namespace

void cell_forward_norm(cudaStream_t stream, const CellKind& kind, const CellForwardArgs& args,
                       const CellForwardExtras& extras, const CellNormForward& norm) {
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
