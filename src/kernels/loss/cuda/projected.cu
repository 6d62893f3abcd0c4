#include <algorithm>
#include <limits>

#include "base/dtype.h"
#include "base/shape.h"
#include "kernels/loss/cuda/loss.h"
#include "kernels/loss/cuda/projected_products.h"
#include "kernels/loss/cuda/projected_softmax.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/part_sums.h"

/// Blocks take tiles of 64 tokens in turns. x comes into shared memory and is dropped out there, by
/// a mask that has been drawn before; logits stay in registers; the gradient of the weights is
/// summed up there over all of a block's tiles, and the gradient of x takes the place of x.
namespace sluice::kernels::loss::cuda {
namespace {

using runtime::cuda::Add;
using runtime::cuda::kPartThreads;
using runtime::cuda::kWarp;
using runtime::cuda::Team;

template <typename T, int kIn>
__device__ void fill_tile(const ProjectedProblem<T>& p, ProjectedTile<T, kIn>& tile) {
  const int rank = static_cast<int>(threadIdx.x);
  constexpr int kPieces = kIn / kPiece;
  for (int i = rank; i < kTileClasses * kPieces; i += kProjectedThreads) {
    const int j = i / kPieces, column = i % kPieces * kPiece;
    const bool is_there = j < p.classes;
    __pipeline_memcpy_async(&tile.weight[j][column], p.weight + (is_there ? j : 0) * kIn + column,
                            sizeof(uint4), is_there ? 0 : sizeof(uint4));
  }
  for (int i = rank; i < kTileClasses; i += kProjectedThreads) {
    tile.bias[i] = i < p.classes ? p.bias[i] : -INFINITY;
    for (auto& of_pair : tile.d_bias) of_pair[i] = 0;
  }
  for (int i = rank; i < kTileTokens; i += kProjectedThreads) {
    for (double& sum : tile.sums[i]) sum = 0;
  }
}

/// A block's part of all that is summed over tokens.
template <typename T, int kIn>
__device__ void write_part(const ProjectedProblem<T>& p, const ProjectedTile<T, kIn>& tile,
                           const ProjectedPlace& place, const WeightSums<T, kIn>& d_weight) {
  __syncthreads();
  auto* part = reinterpret_cast<unsigned char*>(p.parts) + blockIdx.x * p.part_bytes;
  auto* numbers = reinterpret_cast<float*>(part);
  d_weight.write(numbers, p.classes, place);
  const int i = static_cast<int>(threadIdx.x);
  if (i < p.classes) {
    float sum = 0;
    for (const auto& of_pair : tile.d_bias) sum += of_pair[i];
    numbers[p.classes * kIn + i] = sum;
  }
  if (i < kSums) {
    double sum = 0;
    for (const auto& of_token : tile.sums) sum += of_token[i];
    reinterpret_cast<double*>(part + p.part_bytes)[i - kSums] = sum;
  }
}

template <typename T, int kIn>
__global__ void __launch_bounds__(kProjectedThreads, 2) projected_kernel(ProjectedProblem<T> p) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto& tile = *reinterpret_cast<ProjectedTile<T, kIn>*>(memory);
  const ProjectedPlace place;
  const OwnPieces<T, kIn> own{place};
  std::int64_t first = std::int64_t{blockIdx.x} * kTileTokens;
  fill_tile(p, tile);
  own.fetch(p, tile, first);
  const auto scale = static_cast<float>(p.scale.value());
  WeightSums<T, kIn> d_weight;
  d_weight.clear();
  __pipeline_wait_prior(0);
  __syncthreads();
  const std::int64_t step = std::int64_t{gridDim.x} * kTileTokens;
  for (; first < p.tokens.count(); first += step) {
    own.fetch_ahead(p, first + step);
    // Of each pair's tokens one warp asks for the targets.
    const int token = place.pair * kPairTokens + place.lane;
    const bool asks = place.half == 0 && place.lane < kPairTokens;
    TokenTarget target{};
    if (asks) target = p.target(first + token);
    own.drop(p, tile);
    if (asks) tile.targets[token] = target;
    place.meet();
    float logits[kOwnEights][4];
    multiply_logits(tile, place, logits);
    take_losses(p, tile, place, scale, logits);
    __syncthreads();
    d_weight.add(tile, place);
    __syncthreads();
    multiply_back(tile, place);
    __syncwarp();
    own.write(p, tile, first);
    own.fetch(p, tile, first + step);
  }
  write_part(p, tile, place, d_weight);
}

/// What dropout keeps of all tiles, for projected_kernel.
template <int kIn>
__global__ void __launch_bounds__(kProjectedThreads) draw_kernel(ProjectedMask mask) {
  const OwnPieces<__half, kIn> own{ProjectedPlace()};
  const std::uint64_t philox_key = mask.source.key().philox_key();
  for (std::int64_t first = std::int64_t{blockIdx.x} * kTileTokens; first < mask.tokens;
       first += std::int64_t{gridDim.x} * kTileTokens) {
    own.draw(mask, philox_key, first);
  }
}

/// Adds the parts' numbers up; the last block has the sums of the loss.
struct Parts {
  const unsigned char* data;
  std::int64_t bytes;
  int count, weights, numbers;  ///< of a part: gradients of the weights, with those of the bias
  float* d_weight;
  float* d_bias;
  double* sums;
};

__global__ void __launch_bounds__(kPartThreads) add_parts_kernel(Parts p) {
  __shared__ double scratch[runtime::cuda::kPartTeams][kWarp];
  const int rank = static_cast<int>(threadIdx.x);
  if (blockIdx.x == gridDim.x - 1) {
    const Team<kPartThreads> team{rank, scratch};
    for (int s = 0; s < kSums; ++s) {
      double sum = 0;
      for (int i = rank; i < p.count; i += kPartThreads) {
        sum += reinterpret_cast<const double*>(p.data + (i + 1) * p.bytes)[s - kSums];
      }
      sum = team.reduce(sum, Add{});
      if (rank == 0) p.sums[s] = sum;
    }
    return;
  }
  const int number = static_cast<int>(blockIdx.x) * kWarp + rank % kWarp;
  const bool is_there = number < p.numbers;
  const float* first = reinterpret_cast<const float*>(p.data) + number;
  const double sum = runtime::cuda::sum_of_parts(is_there ? first : nullptr,
                                                 p.bytes / static_cast<std::int64_t>(sizeof(float)),
                                                 p.count, scratch);
  if (rank >= kWarp || !is_there) return;
  float* to = number < p.weights ? p.d_weight + number : p.d_bias + (number - p.weights);
  *to += static_cast<float>(sum);
}

/// What Tokens wants.
struct TokenArgs {
  std::int64_t first_time, time, rows;
  Tensor targets, lengths;
};

ProjectedMask mask_of(const ProjectedCrossEntropyArgs& args) {
  SLUICE_ASSERT(args.time * args.rows <= std::numeric_limits<std::uint32_t>::max());
  return {args.time * args.rows,
          args.rows,
          args.source,
          runtime::dropout_threshold(args.dropout),
          args.row_ids.data_as<const std::int32_t>(),
          static_cast<std::uint32_t*>(args.mask)};
}

template <typename T>
ProjectedProblem<T> problem_of(const ProjectedCrossEntropyArgs& args) {
  const std::int64_t classes = args.weight.size(0), in = args.weight.size(1);
  const std::size_t part_bytes = projected_cross_entropy_workspace_bytes(classes, in) /
                                 static_cast<std::size_t>(kProjectedParts);
  return {mask_of(args),
          Tokens(TokenArgs{0, args.time, args.rows, args.targets.reshape({args.time * args.rows}),
                           args.lengths}),
          static_cast<int>(classes),
          static_cast<const T*>(args.x.data()),
          static_cast<const T*>(args.weight.data()),
          args.bias.data_as<const float>(),
          static_cast<T*>(args.dx.data()),
          static_cast<float*>(args.workspace),
          static_cast<std::int64_t>(part_bytes),
          args.label_smoothing,
          args.label_smoothing / static_cast<double>(classes),
          Scale(args),
          static_cast<float>(1 / (1 - args.dropout))};
}

std::int64_t tiles_of(const ProjectedCrossEntropyArgs& args) {
  return (args.time * args.rows + kTileTokens - 1) / kTileTokens;
}

/// Other widths would be as many kernels more.
constexpr int kWidth = 384;

void draw(Stream& stream, const ProjectedCrossEntropyArgs& args) {
  runtime::cuda::launch(stream, "draw what dropout keeps", draw_kernel<kWidth>,
                        static_cast<unsigned>(tiles_of(args)), kProjectedThreads, 0, mask_of(args));
}

template <typename T, int kIn>
void launch_projected(Stream& stream, const ProjectedCrossEntropyArgs& args) {
  if (args.dropout > 0 && !args.is_drawn) draw(stream, args);
  const ProjectedProblem<T> problem = problem_of<T>(args);
  const std::int64_t tiles = tiles_of(args);
  const std::int64_t blocks = std::clamp(tiles, std::int64_t{1}, kProjectedParts);
  runtime::cuda::launch(stream, "take the cross entropy of a layer", projected_kernel<T, kIn>,
                        static_cast<unsigned>(blocks), kProjectedThreads,
                        sizeof(ProjectedTile<T, kIn>), problem);
  Parts parts{};
  parts.data = static_cast<const unsigned char*>(args.workspace);
  parts.bytes = problem.part_bytes;
  parts.count = static_cast<int>(blocks);
  parts.weights = problem.classes * kIn;
  parts.numbers = problem.classes * (kIn + 1);
  parts.d_weight = args.d_weight.data_as<float>();
  parts.d_bias = args.d_bias.data_as<float>();
  parts.sums = args.sums.data_as<double>();
  runtime::cuda::launch(stream, "add up gradients of a layer", add_parts_kernel,
                        runtime::cuda::blocks_for(parts.numbers, runtime::cuda::kWarp) + 1,
                        kPartThreads, 0, parts);
}

void run(Stream& stream, const ProjectedCrossEntropyArgs& args) {
  if (args.x.dtype() == base::DType::kBFloat16) {
    return launch_projected<__nv_bfloat16, kWidth>(stream, args);
  }
  launch_projected<__half, kWidth>(stream, args);
}

bool takes(Stream& stream, base::DType storage, std::int64_t in, std::int64_t classes) {
  const bool is_short = storage == base::DType::kBFloat16 || storage == base::DType::kFloat16;
  return is_short && in == kWidth && classes >= 1 && classes <= kTileClasses &&
         sizeof(ProjectedTile<__half, kWidth>) <= runtime::cuda::gpu_of(stream).shared_bytes;
}

}  // namespace

const ProjectedLeaves kProjectedLeaves{takes, draw, run};

}  // namespace sluice::kernels::loss::cuda
