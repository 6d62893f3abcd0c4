#include "kernels/recurrent/cuda/cell_extras.h"
#include "kernels/recurrent/cuda/dispatch_storage.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/norm_kernels.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/reduce.h"

namespace sluice::kernels::recurrent::cuda::persistent {
namespace {

constexpr int kBlock = 256;
/// A warp has a row; its lanes hold all gates of every 32nd unit.
constexpr int kLanes = 32, kMostUnits = 512, kUnitsEach = kMostUnits / kLanes;

__device__ float sum_of_lanes(float value) {
  return runtime::cuda::combine_lanes<1, 2, 4, 8, 16>(value, runtime::cuda::Add{});
}

/// Calls body(i, unit) for the units of a lane.
template <typename Body>
__device__ void for_units(int hidden, const Body& body) {
#pragma unroll
  for (int i = 0; i < kUnitsEach; ++i) {
    const int unit = i * kLanes + static_cast<int>(threadIdx.x) % kLanes;
    if (unit < hidden) body(i, unit);
  }
}

/// A row and direction, a warp each.
struct Place {
  std::int64_t place;  ///< of the piece
  int direction;
  bool exists;

  __device__ Place(std::int64_t places, int directions) {
    const std::int64_t warp =
        (blockIdx.x * static_cast<std::int64_t>(kBlock) + threadIdx.x) / kLanes;
    place = warp / directions;
    direction = static_cast<int>(warp % directions);
    exists = place < places;
  }
};

template <typename T>
__global__ void __launch_bounds__(kBlock) inputs_kernel(const NormaliseInputs args) {
  const Place at(args.places, args.directions);
  if (!at.exists) return;
  const int hidden = args.hidden, d = at.direction;
  float* input = args.input + (at.place * args.directions + d) * 4 * hidden;
  const float count = 4.0f * static_cast<float>(hidden);
  float values[kUnitsEach][4];
  float sum = 0;
  for_units(hidden, [&](int i, int unit) {
#pragma unroll
    for (int g = 0; g < 4; ++g) values[i][g] = input[g * hidden + unit];
    sum += (values[i][0] + values[i][1]) + (values[i][2] + values[i][3]);
  });
  const float mean = sum_of_lanes(sum) / count;
  float squares = 0;
  for_units(hidden, [&](int i, int) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      values[i][g] -= mean;
      squares = fmaf(values[i][g], values[i][g], squares);
    }
  });
  const float inverse = 1.0f / sqrtf(sum_of_lanes(squares) / count + kNormEpsilon);
  const std::int64_t place = args.first + at.place;
  auto* norm = static_cast<Four<T>*>(args.norm_ih[d]);
  for_units(hidden, [&](int i, int unit) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      values[i][g] *= inverse;
      input[g * hidden + unit] = args.gain_ih[d][g * hidden + unit] * values[i][g];
    }
    if (norm) __stwb(&norm[place * hidden + unit].bits, Four<T>(values[i]).bits);
  });
  if (norm && threadIdx.x % kLanes == 0) args.inverses[d][place * 3] = inverse;
}

template <typename T>
__global__ void __launch_bounds__(kBlock) gradients_kernel(const NormaliseInputGradients args) {
  const Place at(args.places, args.directions);
  if (!at.exists) return;
  const int hidden = args.hidden, d = at.direction;
  const std::int64_t place = args.first + at.place;
  const auto* d_sums = static_cast<const Four<T>*>(args.d_sums[d]) + place * hidden;
  const auto* norm_ih = static_cast<const Four<T>*>(args.norm_ih[d]) + place * hidden;
  const float* gain = args.gain_ih[d];
  const float share = 0.25f / static_cast<float>(hidden);
  Four<T> sums[kUnitsEach], norms[kUnitsEach];
  for_units(hidden, [&](int i, int unit) {
    sums[i] = d_sums[unit];
    norms[i] = norm_ih[unit];
  });
  float total = 0, along = 0;
  for_units(hidden, [&](int i, int unit) {
    float d_sum[4], normed[4];
    sums[i].unpack(d_sum);
    norms[i].unpack(normed);
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const float scaled = gain[g * hidden + unit] * d_sum[g];
      total += scaled;
      along = fmaf(scaled, normed[g], along);
    }
  });
  const float mean = sum_of_lanes(total) * share, mean_along = sum_of_lanes(along) * share;
  const float inverse = args.inverses[d][place * 3];
  T* to = static_cast<T*>(args.d_input) + (place * args.directions + d) * 4 * hidden;
  for_units(hidden, [&](int i, int unit) {
    float d_sum[4], normed[4];
    sums[i].unpack(d_sum);
    norms[i].unpack(normed);
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const float scaled = gain[g * hidden + unit] * d_sum[g];
      store(to + g * hidden + unit, (scaled - mean - normed[g] * mean_along) * inverse);
    }
  });
}

unsigned blocks_of(std::int64_t places, int directions) {
  return static_cast<unsigned>((places * directions * kLanes + kBlock - 1) / kBlock);
}

}  // namespace

void normalise_inputs(cudaStream_t stream, DType storage, const NormaliseInputs& args) {
  SLUICE_ASSERT(args.hidden <= kMostUnits);
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    inputs_kernel<T><<<blocks_of(args.places, args.directions), kBlock, 0, stream>>>(args);
  });
  runtime::cuda::check(cudaGetLastError(), "queue the norm of a recurrent layer's input");
}

void normalise_input_gradients(cudaStream_t stream, DType storage,
                               const NormaliseInputGradients& args) {
  SLUICE_ASSERT(args.hidden <= kMostUnits);
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    gradients_kernel<T><<<blocks_of(args.places, args.directions), kBlock, 0, stream>>>(args);
  });
  runtime::cuda::check(cudaGetLastError(), "queue the gradients of a recurrent layer's input");
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
