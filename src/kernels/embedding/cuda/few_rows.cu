#include <algorithm>
#include <bit>

#include "base/dtype.h"
#include "kernels/embedding/cuda/few_rows.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/numbers.h"
#include "runtime/cuda/reduce.h"

/// Where a table has so few rows that a block could keep many copies of some columns of it: a
/// thread adds every so many tokens to a copy of its own, and the copies are added up in the end.
/// Blocks have four columns each.
namespace sluice::kernels::embedding::cuda {
namespace {

using runtime::cuda::kAllLanes;
using runtime::cuda::kWarp;

constexpr int kColumns = 4;
/// Copies: with fewer the threads wait for memory, with more adding up takes longer than adding.
constexpr int kFewestCopies = 64, kMostCopies = 512;
/// Tokens that a thread has on their way at once.
constexpr int kTogether = 8;

template <typename Stored>
struct Problem {
  const std::int32_t* tokens;
  std::int64_t count;
  std::int32_t padding;
  const Stored* d_out;
  float* d_table;
  std::int64_t features;
  std::int32_t vocabulary;
  Marks marks;
};

template <typename Stored>
struct alignas(kColumns * sizeof(Stored)) StoredColumns {
  Stored at[kColumns];
};

__device__ void add(float4& sum, const float4& values) {
  sum.x += values.x;
  sum.y += values.y;
  sum.z += values.z;
  sum.w += values.w;
}

template <typename Stored>
__device__ float4 widened(const StoredColumns<Stored>& from) {
  using runtime::cuda::widened;
  return {widened(from.at[0]), widened(from.at[1]), widened(from.at[2]), widened(from.at[3])};
}

/// A block of as many threads as copies.
template <typename Stored>
__global__ void __launch_bounds__(kMostCopies) few_rows_kernel(Problem<Stored> p) {
  // [row][copy]: whatever rows the threads of a warp add to, they don't meet in a bank.
  extern __shared__ __align__(16) float4 sums[];
  const int copies = static_cast<int>(blockDim.x), copy = static_cast<int>(threadIdx.x);
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumns;
  float4* own = sums + copy;
  for (int row = 0; row < p.vocabulary; ++row) own[row * copies] = {0, 0, 0, 0};
  const auto takes = [&](std::int32_t token) {
    return token >= 0 && token < p.vocabulary && token != p.padding;
  };
  for (std::int64_t i = copy; i < p.count; i += std::int64_t{kTogether} * copies) {
    std::int32_t tokens[kTogether];
    StoredColumns<Stored> values[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const std::int64_t n = i + std::int64_t{k} * copies;
      tokens[k] = n < p.count ? p.tokens[n] : -1;
      // Beyond the end the last one again: loads without branches are on their way together.
      const std::int64_t from = (n < p.count ? n : p.count - 1) * p.features + column;
      values[k] = *reinterpret_cast<const StoredColumns<Stored>*>(p.d_out + from);
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      if (takes(tokens[k])) add(own[tokens[k] * copies], widened(values[k]));
    }
  }
  __syncthreads();
  // A warp adds up the copies of a row.
  const int lane = copy % kWarp;
  for (int row = copy / kWarp; row < p.vocabulary; row += copies / kWarp) {
    float4 sum{0, 0, 0, 0};
    for (int i = lane; i < copies; i += kWarp) add(sum, sums[row * copies + i]);
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      add(sum, {__shfl_down_sync(kAllLanes, sum.x, distance),
                __shfl_down_sync(kAllLanes, sum.y, distance),
                __shfl_down_sync(kAllLanes, sum.z, distance),
                __shfl_down_sync(kAllLanes, sum.w, distance)});
    }
    if (lane == 0) {
      const std::int64_t at = row * p.features + column;
      add(*reinterpret_cast<float4*>(p.d_table + at), sum);
      p.marks.touch(at, at + kColumns);
    }
  }
}

/// As many copies as there is shared memory for, but no more than leave each some tokens; 0: too
/// few.
int copies_for(const runtime::cuda::GpuProperties& gpu, std::int64_t vocabulary,
               std::int64_t tokens) {
  const auto fit = static_cast<std::uint64_t>(gpu.shared_bytes) /
                   (static_cast<std::uint64_t>(vocabulary) * sizeof(float4));
  if (fit < kFewestCopies) return 0;
  const auto wanted = std::bit_ceil(static_cast<std::uint64_t>(tokens) / kTogether + 1);
  return static_cast<int>(
      std::clamp<std::uint64_t>(std::min(std::bit_floor(fit), wanted), kFewestCopies, kMostCopies));
}

template <typename Stored>
bool add_back(Stream& stream, const GatherBackwardArgs& args) {
  Problem<Stored> p{};
  p.tokens = args.tokens.data_as<const std::int32_t>();
  p.count = args.tokens.element_count();
  p.padding = args.padding;
  p.d_out = args.d_out.data_as<const Stored>();
  p.d_table = args.d_table.data_as<float>();
  p.vocabulary = static_cast<std::int32_t>(args.d_table.size(0));
  p.features = args.d_table.size(1);
  p.marks = Marks(args.touched);
  const int copies =
      copies_for(runtime::cuda::gpu_of(stream), args.d_table.size(0), args.tokens.element_count());
  if (copies == 0 || p.features % kColumns != 0 ||
      reinterpret_cast<std::uintptr_t>(p.d_out) % sizeof(StoredColumns<Stored>) != 0 ||
      reinterpret_cast<std::uintptr_t>(p.d_table) % sizeof(float4) != 0) {
    return false;
  }
  runtime::cuda::launch(stream, "add up gradients of a table of few rows", few_rows_kernel<Stored>,
                        static_cast<unsigned>(p.features / kColumns), copies,
                        static_cast<std::size_t>(copies * p.vocabulary) * sizeof(float4), p);
  return true;
}

}  // namespace

bool add_to_few_rows(Stream& stream, const GatherBackwardArgs& args) {
  switch (args.d_out.dtype()) {
    case base::DType::kFloat64:
      return false;
    case base::DType::kBFloat16:
      return add_back<base::BFloat16>(stream, args);
    case base::DType::kFloat16:
      return add_back<base::Float16>(stream, args);
    default:
      return add_back<float>(stream, args);
  }
}

}  // namespace sluice::kernels::embedding::cuda
