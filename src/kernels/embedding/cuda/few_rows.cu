#include <algorithm>
#include <bit>

#include "base/dtype.h"
#include "kernels/embedding/cuda/dropped.h"
#include "kernels/embedding/cuda/few_rows.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/numbers.h"
#include "runtime/cuda/part_sums.h"

/// Where a table has so few rows that a block could keep many copies of some columns of it: a
/// thread has four columns of a copy and adds every so many tokens to it, and the copies are added
/// up in the end. Of many tokens blocks take a part each: a team of threads has neighbouring
/// columns of the same copy, so that what it reads of a token lies together.
namespace sluice::kernels::embedding::cuda {
namespace {

using runtime::cuda::kAllLanes;
using runtime::cuda::kWarp;

constexpr int kColumns = kDrawn;
/// Threads of a block: with fewer they wait for memory, with more adding up takes longer than
/// adding.
constexpr int kFewestThreads = 64, kMostThreads = 512;
/// Tokens that a thread has on their way at once.
constexpr int kTogether = 8;
/// Blocks that share many tokens, in all: one a multiprocessor of an H200.
constexpr int kSharing = 132;

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
  Dropped dropped;
  int team;      ///< threads that share a token: a power of two, at most a warp
  float* parts;  ///< [gridDim.y, vocabulary, features]; null: one block has all tokens

  /// Leaves the sum of four columns of a row for those who add parts up, or adds it to the table.
  __device__ void finish(int row, std::int64_t column, const float4& sum) const;
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
__device__ void Problem<Stored>::finish(int row, std::int64_t column, const float4& sum) const {
  const std::int64_t at = row * features + column;
  if (parts != nullptr) {
    *reinterpret_cast<float4*>(parts + blockIdx.y * (vocabulary * features) + at) = sum;
    return;
  }
  add(*reinterpret_cast<float4*>(d_table + at), sum);
  marks.mark(at, at + kColumns);
}

template <typename Stored>
__device__ float4 widened(const StoredColumns<Stored>& from) {
  using runtime::cuda::widened;
  return {widened(from.at[0]), widened(from.at[1]), widened(from.at[2]), widened(from.at[3])};
}

template <typename Stored, bool kDrops>
__global__ void __launch_bounds__(kMostThreads) few_rows_kernel(Problem<Stored> p) {
  // [row][thread]: whatever rows the threads of a warp add to, they don't meet in a bank.
  extern __shared__ __align__(16) float4 sums[];
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int copies = threads / p.team;
  const std::int64_t own = std::int64_t{blockIdx.x} * p.team + thread % p.team;
  const std::int64_t column = own * kColumns;
  const std::int64_t part = (p.count + gridDim.y - 1) / gridDim.y, first = blockIdx.y * part;
  const std::int64_t end = first + part < p.count ? first + part : p.count;
  const runtime::DropoutKey key = kDrops ? p.dropped.source.key() : runtime::DropoutKey{};
  for (int row = 0; row < p.vocabulary; ++row) sums[row * threads + thread] = {0, 0, 0, 0};
  const auto takes = [&](std::int32_t token) {
    return token >= 0 && token < p.vocabulary && token != p.padding;
  };
  for (std::int64_t i = first + thread / p.team; i < end; i += std::int64_t{kTogether} * copies) {
    std::int32_t tokens[kTogether];
    StoredColumns<Stored> values[kTogether];
    Dropped::Token draws[kDrops ? kTogether : 1];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const std::int64_t n = i + std::int64_t{k} * copies;
      tokens[k] = n < end ? p.tokens[n] : -1;
      // Beyond the end the last one again: loads without branches are on their way together.
      const std::int64_t there = n < end ? n : end - 1;
      values[k] =
          *reinterpret_cast<const StoredColumns<Stored>*>(p.d_out + there * p.features + column);
      if constexpr (kDrops) draws[k] = p.dropped.token(there);
    }
    if constexpr (kDrops) {
#pragma unroll
      for (int k = 0; k < kTogether; ++k) p.dropped.drop(key, draws[k], column, values[k].at);
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      if (takes(tokens[k])) add(sums[tokens[k] * threads + thread], widened(values[k]));
    }
  }
  __syncthreads();
  // A warp adds up the copies of a row.
  const int lane = thread % kWarp;
  for (int row = thread / kWarp; row < p.vocabulary; row += threads / kWarp) {
    float4 sum{0, 0, 0, 0};
    for (int i = lane; i < threads; i += kWarp) add(sum, sums[row * threads + i]);
    for (int distance = kWarp / 2; distance >= p.team; distance /= 2) {
      add(sum, {__shfl_down_sync(kAllLanes, sum.x, distance),
                __shfl_down_sync(kAllLanes, sum.y, distance),
                __shfl_down_sync(kAllLanes, sum.z, distance),
                __shfl_down_sync(kAllLanes, sum.w, distance)});
    }
    if (lane < p.team) p.finish(row, column, sum);
  }
}

/// Adds the parts of so many blocks to the table.
__global__ void __launch_bounds__(runtime::cuda::kPartThreads)
    add_parts_kernel(const float* parts, int count, std::int64_t numbers, float* d_table,
                     Marks marks) {
  __shared__ double scratch[runtime::cuda::kPartTeams][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t at = std::int64_t{blockIdx.x} * kWarp + lane;
  const bool is_there = at < numbers;
  const double sum =
      runtime::cuda::sum_of_parts(is_there ? parts + at : nullptr, numbers, count, scratch);
  if (static_cast<int>(threadIdx.x) >= kWarp || !is_there) return;
  d_table[at] += static_cast<float>(sum);
  marks.mark(at, at + 1);
}

/// As many threads as there is shared memory for, but no more than leave each some tokens; 0: too
/// few.
int threads_for(const runtime::cuda::GpuProperties& gpu, std::int64_t vocabulary,
                std::int64_t tokens) {
  const auto fit = static_cast<std::uint64_t>(gpu.shared_bytes) /
                   (static_cast<std::uint64_t>(vocabulary) * sizeof(float4));
  if (fit < kFewestThreads) return 0;
  const auto wanted = std::bit_ceil(static_cast<std::uint64_t>(tokens) / kTogether + 1);
  return static_cast<int>(std::clamp<std::uint64_t>(std::min(fit / kWarp * kWarp, wanted),
                                                    kFewestThreads, kMostThreads));
}

/// Gradients of 16 bits are dropped out on the way; of others there is no such kernel.
template <typename Stored>
constexpr bool kCanDrop = sizeof(Stored) < sizeof(float);

template <typename Stored>
void launch_few_rows(Stream& stream, Problem<Stored> p, int threads,
                     void (*kernel)(Problem<Stored>)) {
  constexpr std::string_view kWhat = "add up gradients of a table of few rows";
  // Fewer tokens are added up sooner than parts.
  constexpr std::int64_t kWorthSharing = 8192;
  unsigned sharing = 1;
  if (p.count >= kWorthSharing) {
    const std::uint64_t widest =
        std::uint64_t{1} << std::countr_zero(static_cast<std::uint64_t>(p.features / kColumns));
    p.team = static_cast<int>(std::min<std::uint64_t>(widest, kWarp));
    const std::int64_t across = p.features / (kColumns * p.team);
    sharing = static_cast<unsigned>(std::max<std::int64_t>(1, kSharing / across));
  }
  const auto across = static_cast<unsigned>(p.features / (kColumns * p.team));
  if (sharing > 1)
    p.parts = static_cast<float*>(static_cast<runtime::cuda::CudaStream&>(stream).workspace());
  runtime::cuda::launch(stream, kWhat, kernel, dim3(across, sharing), threads,
                        static_cast<std::size_t>(threads * p.vocabulary) * sizeof(float4), p);
  if (sharing == 1) return;
  const std::int64_t numbers = p.vocabulary * p.features;
  runtime::cuda::launch(stream, kWhat, add_parts_kernel, runtime::cuda::blocks_for(numbers, kWarp),
                        runtime::cuda::kPartThreads, 0, p.parts, static_cast<int>(sharing), numbers,
                        p.d_table, p.marks);
}

template <typename Stored>
bool add_back(Stream& stream, const GatherBackwardArgs& args) {
  const Problem<Stored> p{args.tokens.data_as<const std::int32_t>(),
                          args.tokens.element_count(),
                          args.padding,
                          args.d_out.data_as<const Stored>(),
                          args.d_table.data_as<float>(),
                          args.d_table.size(1),
                          static_cast<std::int32_t>(args.d_table.size(0)),
                          Marks(args.marks),
                          Dropped(args.dropout, args.tokens),
                          1,
                          nullptr};
  const int threads = threads_for(runtime::cuda::gpu_of(stream), p.vocabulary, p.count);
  if (threads == 0 || p.features % kColumns != 0 ||
      reinterpret_cast<std::uintptr_t>(p.d_out) % sizeof(StoredColumns<Stored>) != 0 ||
      reinterpret_cast<std::uintptr_t>(p.d_table) % sizeof(float4) != 0) {
    return false;
  }
  auto* kernel = few_rows_kernel<Stored, false>;
  if (args.dropout.rate > 0) {
    if constexpr (!kCanDrop<Stored>) return false;
    kernel = few_rows_kernel<Stored, kCanDrop<Stored>>;
  }
  launch_few_rows(stream, p, threads, kernel);
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
