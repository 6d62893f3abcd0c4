#include "kernels/matmul/cuda/parts.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::matmul::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kGroup = 8;  ///< numbers that a thread takes at a time

/// Of a group, pair by pair; uint4 so that they stay in registers.
struct Parts {
  uint4 high, middle, low;
};

/// What a launch takes of a SplitMatrix.
struct Job {
  const float* from;
  __nv_bfloat16* to;
  std::int64_t stride;
  unsigned rows, columns, to_rows, groups, chunk;
  bool depth_in_rows, aligned;
};
struct Jobs {
  Job at[2];  ///< the left factor's, and the right one's
};

__device__ unsigned rounded_pair(float a, float b) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return reinterpret_cast<const unsigned&>(pair);
}
__device__ float first_of(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ float second_of(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }

/// Whether the nearest bfloat16 is no finite number.
__device__ bool is_beyond(float x) {
  constexpr unsigned kFirst = 0x7f7f8000;
  return (__float_as_uint(x) & 0x7fffffff) >= kFirst;
}
/// The first part of a number: what is finite is cut off rather than rounded to infinity.
__device__ float cut_off(float x) {
  return isnan(x) ? x : __uint_as_float(__float_as_uint(x) & 0xffff0000u);
}

__device__ void split_pair(float a, float b, unsigned& high, unsigned& middle, unsigned& low) {
  const bool beyond = is_beyond(a) || is_beyond(b);
  high = beyond ? rounded_pair(cut_off(a), cut_off(b)) : rounded_pair(a, b);
  a -= first_of(high);
  b -= second_of(high);
  // Of an infinity or NaN nothing is left.
  if (beyond) a = isfinite(a) ? a : 0, b = isfinite(b) ? b : 0;
  middle = rounded_pair(a, b);
  low = rounded_pair(a - first_of(middle), b - second_of(middle));
}

struct Wide {
  float4 first, second;
};
__device__ Wide load(const Job& job, unsigned row, unsigned column) {
  Wide x = {};
  if (row >= job.rows) return x;
  const float* from = job.from + row * job.stride + column;
  if (job.aligned && column + kGroup <= job.columns) {
    const auto* fours = reinterpret_cast<const float4*>(from);
    return {__ldg(fours), __ldg(fours + 1)};
  }
  const auto at = [&](unsigned i) { return column + i < job.columns ? from[i] : 0; };
  return {{at(0), at(1), at(2), at(3)}, {at(4), at(5), at(6), at(7)}};
}

__device__ Parts parts_of(const Wide& x) {
  Parts parts;
  split_pair(x.first.x, x.first.y, parts.high.x, parts.middle.x, parts.low.x);
  split_pair(x.first.z, x.first.w, parts.high.y, parts.middle.y, parts.low.y);
  split_pair(x.second.x, x.second.y, parts.high.z, parts.middle.z, parts.low.z);
  split_pair(x.second.z, x.second.w, parts.high.w, parts.middle.w, parts.low.w);
  return parts;
}

__global__ void __launch_bounds__(kBlock) split_kernel(const __grid_constant__ Jobs jobs) {
  const Job& job = jobs.at[blockIdx.y];
  const bool left = blockIdx.y == 0;
  const unsigned count = job.to_rows * job.groups, width = job.groups * kGroup;
  for (unsigned i = blockIdx.x * kBlock + threadIdx.x; i < count; i += gridDim.x * kBlock) {
    const unsigned row = i / job.groups, column = (i - row * job.groups) * kGroup;
    const Parts parts = parts_of(load(job, row, column));
    // Where the group lies in the first block, and how far it is from a block to the next.
    const unsigned depth = job.depth_in_rows ? row : column;
    const unsigned at = depth + depth / job.chunk * job.chunk * (kPartProducts - 1);
    std::int64_t first = row * kPartProducts * std::int64_t{width} + at, step = job.chunk;
    if (job.depth_in_rows) first = at * std::int64_t{width} + column, step *= width;
    auto* to = reinterpret_cast<uint4*>(job.to + first);
    step /= kGroup;
    // low x high, high x low, middle x middle, middle x high, high x middle, high x high
    to[0] = left ? parts.low : parts.high;
    to[step] = left ? parts.high : parts.low;
    to[2 * step] = parts.middle;
    to[3 * step] = left ? parts.middle : parts.high;
    to[4 * step] = left ? parts.high : parts.middle;
    to[5 * step] = parts.high;
  }
}

__global__ void __launch_bounds__(kBlock) add_sums_kernel(const AddSums args) {
  const std::int64_t column = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (column >= args.columns) return;
  const float bias = args.bias == nullptr ? 0 : args.bias[column];
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const float* sums = args.sums + row * args.stride + column;
    float sum = *sums;
    for (std::int64_t k = 1; k < args.count; ++k) sum += sums[k * args.step];
    float& c = args.c[row * args.c_stride + column];
    if (args.beta != 0) sum += args.beta * c;
    c = sum + bias;
  }
}

bool is_aligned(const SplitMatrix& matrix) {
  constexpr std::uintptr_t kBytes = 16;
  return reinterpret_cast<std::uintptr_t>(matrix.from) % kBytes == 0 && matrix.stride % 4 == 0;
}

Job job_of(const SplitMatrix& matrix) {
  return {matrix.from,
          matrix.to,
          matrix.stride,
          static_cast<unsigned>(matrix.rows),
          static_cast<unsigned>(matrix.columns),
          static_cast<unsigned>(matrix.to_rows),
          static_cast<unsigned>(matrix.to_columns / kGroup),
          static_cast<unsigned>(matrix.chunk),
          matrix.depth_in_rows,
          is_aligned(matrix)};
}

}  // namespace

void split(runtime::cuda::CudaStream& stream, const SplitMatrix& left, const SplitMatrix& right) {
  const std::int64_t groups =
      std::max(left.to_rows * left.to_columns, right.to_rows * right.to_columns) / kGroup;
  const dim3 grid(runtime::cuda::blocks_for(groups, kBlock), 2);
  runtime::cuda::launch(stream, "split factors into parts", split_kernel, grid, kBlock, 0,
                        Jobs{{job_of(left), job_of(right)}});
}

void add_sums(runtime::cuda::CudaStream& stream, const AddSums& args) {
  constexpr std::int64_t kMostRows = 65535;
  const dim3 grid(static_cast<unsigned>((args.columns + kBlock - 1) / kBlock),
                  static_cast<unsigned>(std::min(args.rows, kMostRows)));
  runtime::cuda::launch(stream, "add the sums of a product", add_sums_kernel, grid, kBlock, 0,
                        args);
}

}  // namespace sluice::kernels::matmul::cuda
