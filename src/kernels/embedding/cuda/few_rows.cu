#include <algorithm>
#include <bit>

#include "base/dtype.h"
#include "kernels/embedding/cuda/dropped.h"
#include "kernels/embedding/cuda/few_rows.h"
#include "kernels/recurrent/cuda/cluster.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/numbers.h"
#include "runtime/cuda/reduce.h"

/// Where a table has so few rows that a block could keep many copies of some columns of it: a
/// thread adds every so many tokens to a copy of its own, and the copies are added up in the end.
/// Blocks have four columns each, and on a Hopper eight of them, a cluster, share the tokens.
namespace sluice::kernels::embedding::cuda {
namespace {

using runtime::cuda::kAllLanes;
using runtime::cuda::kWarp;

constexpr int kColumns = kDrawn;
/// Copies: with fewer the threads wait for memory, with more adding up takes longer than adding.
constexpr int kFewestCopies = 64, kMostCopies = 512;
/// Blocks that share the tokens, each an eighth, and copies that each then has.
constexpr int kSharing = 8, kSharedCopies = 128;
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
  Dropped dropped;

  __device__ void add_to_table(int row, std::int64_t column, const float4& sum) const;
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
__device__ void Problem<Stored>::add_to_table(int row, std::int64_t column,
                                              const float4& sum) const {
  const std::int64_t at = row * features + column;
  add(*reinterpret_cast<float4*>(d_table + at), sum);
  marks.touch(at, at + kColumns);
}

template <typename Stored>
__device__ float4 widened(const StoredColumns<Stored>& from) {
  using runtime::cuda::widened;
  return {widened(from.at[0]), widened(from.at[1]), widened(from.at[2]), widened(from.at[3])};
}

__device__ float4 load_in_cluster(std::uint32_t address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

/// Adds up what the blocks of a cluster left as the first copy of each row, in their order.
template <typename Stored>
__device__ void add_up_cluster(const Problem<Stored>& p, float4* sums, std::int64_t column) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  recurrent::cuda::cluster_arrive();
  recurrent::cuda::cluster_wait();
  const int copies = static_cast<int>(blockDim.x);
  if (recurrent::cuda::cluster_rank() == 0) {
    for (int row = static_cast<int>(threadIdx.x); row < p.vocabulary; row += copies) {
      float4 sum = sums[row * copies];
      const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(sums + row * copies));
      for (unsigned rank = 1; rank < gridDim.y; ++rank) {
        add(sum, load_in_cluster(recurrent::cuda::address_in(rank, at)));
      }
      p.add_to_table(row, column, sum);
    }
  }
  // Until then the others keep what it reads.
  recurrent::cuda::cluster_arrive();
  recurrent::cuda::cluster_wait();
#endif
}

/// A block of as many threads as copies, with its part of the tokens.
template <typename Stored, bool kDrops>
__global__ void __launch_bounds__(kMostCopies) few_rows_kernel(Problem<Stored> p) {
  // [row][copy]: whatever rows the threads of a warp add to, they don't meet in a bank.
  extern __shared__ __align__(16) float4 sums[];
  const int copies = static_cast<int>(blockDim.x), copy = static_cast<int>(threadIdx.x);
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumns;
  const std::int64_t part = (p.count + gridDim.y - 1) / gridDim.y, first = blockIdx.y * part;
  const std::int64_t end = first + part < p.count ? first + part : p.count;
  const runtime::DropoutKey key = kDrops ? p.dropped.source.key() : runtime::DropoutKey{};
  float4* own = sums + copy;
  for (int row = 0; row < p.vocabulary; ++row) own[row * copies] = {0, 0, 0, 0};
  const auto takes = [&](std::int32_t token) {
    return token >= 0 && token < p.vocabulary && token != p.padding;
  };
  for (std::int64_t i = first + copy; i < end; i += std::int64_t{kTogether} * copies) {
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
    if (lane != 0) continue;
    if (gridDim.y > 1) {
      sums[row * copies] = sum;
    } else {
      p.add_to_table(row, column, sum);
    }
  }
  if (gridDim.y > 1) add_up_cluster(p, sums, column);
}

/// As many copies as there is shared memory for, but no more than leave each some tokens; 0: too
/// few.
int copies_for(const runtime::cuda::GpuProperties& gpu, std::int64_t vocabulary,
               std::int64_t tokens, std::uint64_t most) {
  const auto fit = static_cast<std::uint64_t>(gpu.shared_bytes) /
                   (static_cast<std::uint64_t>(vocabulary) * sizeof(float4));
  if (fit < kFewestCopies) return 0;
  const auto wanted = std::bit_ceil(static_cast<std::uint64_t>(tokens) / kTogether + 1);
  return static_cast<int>(
      std::clamp<std::uint64_t>(std::min(std::bit_floor(fit), wanted), kFewestCopies, most));
}

/// Gradients of 16 bits are dropped out on the way; of others there is no such kernel.
template <typename Stored>
constexpr bool kCanDrop = sizeof(Stored) < sizeof(float);

/// Queues it in clusters of `sharing` blocks, or blocks by themselves.
template <typename Stored>
void launch_few_rows(Stream& stream, const Problem<Stored>& p, int copies, unsigned sharing,
                     void (*kernel)(Problem<Stored>)) {
  constexpr std::string_view kWhat = "add up gradients of a table of few rows";
  const auto columns = static_cast<unsigned>(p.features / kColumns);
  const std::size_t bytes = static_cast<std::size_t>(copies * p.vocabulary) * sizeof(float4);
  if (sharing == 1) {
    return runtime::cuda::launch(stream, kWhat, kernel, columns, copies, bytes, p);
  }
  const runtime::cuda::CurrentDevice current(runtime::cuda::gpu_of(stream).ordinal);
  runtime::cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(bytes)),
                       kWhat);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {1, sharing, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(columns, sharing);
  config.blockDim = dim3(static_cast<unsigned>(copies));
  config.dynamicSmemBytes = bytes;
  config.stream = runtime::cuda::handle_of(stream);
  config.attrs = &cluster;
  config.numAttrs = 1;
  runtime::cuda::check(cudaLaunchKernelEx(&config, kernel, p), kWhat);
}

template <typename Stored>
bool add_back(Stream& stream, const GatherBackwardArgs& args) {
  Problem<Stored> p{args.tokens.data_as<const std::int32_t>(),
                    args.tokens.element_count(),
                    args.padding,
                    args.d_out.data_as<const Stored>(),
                    args.d_table.data_as<float>(),
                    args.d_table.size(1),
                    static_cast<std::int32_t>(args.d_table.size(0)),
                    Marks(args.touched),
                    Dropped(args.dropout, args.tokens)};
  const runtime::cuda::GpuProperties& gpu = runtime::cuda::gpu_of(stream);
  // Fewer tokens are added up sooner than a cluster meets.
  constexpr std::int64_t kWorthSharing = 8192;
  const bool shares = gpu.code.hopper && p.count >= kWorthSharing;
  const int copies = copies_for(gpu, p.vocabulary, p.count, shares ? kSharedCopies : kMostCopies);
  if (copies == 0 || p.features % kColumns != 0 ||
      reinterpret_cast<std::uintptr_t>(p.d_out) % sizeof(StoredColumns<Stored>) != 0 ||
      reinterpret_cast<std::uintptr_t>(p.d_table) % sizeof(float4) != 0) {
    return false;
  }
  auto* kernel = few_rows_kernel<Stored, false>;
  if (args.dropout.rate > 0) {
    if constexpr (!kCanDrop<Stored>) return false;
    kernel = few_rows_kernel<Stored, kCanDrop<Stored>>;
  }
  launch_few_rows(stream, p, copies, shares ? kSharing : 1, kernel);
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
