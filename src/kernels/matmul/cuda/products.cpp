#include "kernels/matmul/cuda/products.h"

#include <algorithm>
#include <optional>

#include "kernels/matmul/cuda/by_parts/add_sums.h"
#include "kernels/matmul/cuda/by_parts/kernel.h"

namespace sluice::kernels::matmul::cuda {
namespace {

using by_parts::kStageDepth;
using by_parts::kTile;
using runtime::cuda::Blas;
using runtime::cuda::CudaStream;
using runtime::cuda::GpuProperties;
using runtime::cuda::ProductSpec;

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t processors_of(const GpuProperties& gpu, const ProductSpec& spec) {
  return spec.processors > 0 ? spec.processors : gpu.processors;
}

/// How the depth of a product by parts is split, and how long that takes on an H200, us.
struct Division {
  std::int64_t stages = 1;  ///< of kStageDepth that a block adds up
  std::int64_t splits = 1;
  double time = 0;
};

/// What a product shares the GPU with.
struct Room {
  std::int64_t processors, abreast;

  /// How often the processors have a block each.
  double rounds(std::int64_t blocks) const {
    if (abreast == 1) return static_cast<double>(divided_up(blocks, processors));
    return std::max(1.0, static_cast<double>(blocks * abreast) / static_cast<double>(processors));
  }
};

bool is_aligned(const void* data, std::int64_t stride, std::int64_t numbers) {
  const auto bytes = static_cast<std::uintptr_t>(numbers) * sizeof(float);
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0 && stride % numbers == 0;
}

by_parts::Factor left_factor(const ProductSpec& spec, const void* data) {
  constexpr std::int64_t kPair = 2;
  return {static_cast<const float*>(data), spec.lda, spec.transpose_a,
          is_aligned(data, spec.lda, kPair)};
}
by_parts::Factor right_factor(const ProductSpec& spec, const void* data) {
  constexpr std::int64_t kFour = 4;
  return {static_cast<const float*>(data), spec.ldb, !spec.transpose_b,
          !spec.transpose_b || is_aligned(data, spec.ldb, kFour)};
}

/// A stage's time: of factors that are read number by number it is longer, and so it is where each
/// tile reads columns of its own from memory.
double stage_time(const GpuProperties& gpu, const ProductSpec& spec, bool aligned) {
  constexpr double kUsual = 2.4, kFromMemory = 3.2, kNotAligned = 4.6;
  if (!aligned) return kNotAligned;
  const auto bytes = static_cast<std::size_t>(spec.n * spec.k) * sizeof(float);
  return spec.m <= kTile && bytes > gpu.cache_bytes ? kFromMemory : kUsual;
}

/// Numbers from a row of a split's sums to the next.
std::int64_t sums_stride(const ProductSpec& spec) { return divided_up(spec.n, 4) * 4; }

/// Where splits have sums of their own, they lie in the stream's workspace.
std::int64_t most_splits(const ProductSpec& spec) {
  constexpr std::int64_t kMost = 32;
  constexpr auto kFloats = static_cast<std::int64_t>(CudaStream::kWorkspaceBytes / sizeof(float));
  return std::clamp<std::int64_t>(kFloats / (spec.m * sums_stride(spec)), 1, kMost);
}

/// Measured, and within an eighth of what most shapes take (docs/performance/float32-and-tf32.md).
Division divided(const ProductSpec& spec, std::int64_t splits, double stage, const Room& room) {
  // A launch, what a tile takes beside its stages, and what brings sums together, of which 1.5
  // million come or go in a us.
  constexpr double kLaunch = 2.5, kTileBeside = 2, kAdding = 2.5, kSums = 1.5e6;
  Division made;
  const std::int64_t stages = divided_up(spec.k, kStageDepth);
  made.stages = divided_up(stages, splits);
  made.splits = divided_up(stages, made.stages);
  const std::int64_t tiles = divided_up(spec.m, kTile) * divided_up(spec.n, kTile);
  const double tile = static_cast<double>(made.stages) * stage + kTileBeside;
  made.time = kLaunch + room.rounds(tiles * made.splits) * tile;
  if (made.splits > 1) {
    made.time += kAdding + static_cast<double>((made.splits + 1) * spec.m * spec.n) / kSums;
  }
  return made;
}

Division best_division(const ProductSpec& spec, double stage, const Room& room) {
  Division best = divided(spec, 1, stage, room);
  for (std::int64_t splits = 2; splits <= most_splits(spec); ++splits) {
    const Division tried = divided(spec, splits, stage, room);
    if (tried.time < best.time) best = tried;
  }
  return best;
}

/// What cuBLASLt takes for it in float32: 23 multiply-adds in a picosecond.
double float32_time(const ProductSpec& spec) {
  constexpr double kLaunch = 8, kRate = 23e6;
  return kLaunch + static_cast<double>(spec.m) * static_cast<double>(spec.n) *
                       static_cast<double>(spec.k) / kRate;
}

bool may_go_by_parts(const GpuProperties& gpu, const ProductSpec& spec) {
  return gpu.code.hopper && spec.input == base::DType::kFloat32 && !spec.tf32 && spec.batch == 1 &&
         !spec.device_scalars;
}

/// Nothing where cuBLASLt's float32 is as fast, or nearly.
std::optional<Division> division_of(const GpuProperties& gpu, const ProductSpec& spec,
                                    const ProductOperands& operands) {
  constexpr double kGain = .85;
  if (!may_go_by_parts(gpu, spec)) return std::nullopt;
  const bool aligned =
      left_factor(spec, operands.a).aligned && right_factor(spec, operands.b).aligned;
  const double stage = stage_time(gpu, spec, aligned);
  const std::int64_t processors = processors_of(gpu, spec);
  const Division alone = best_division(spec, stage, {processors, 1});
  if (alone.time > kGain * float32_time(spec)) return std::nullopt;
  if (operands.abreast == 1) return alone;
  return best_division(spec, stage, {processors, operands.abreast});
}

void multiply_by_parts(CudaStream& stream, const ProductSpec& spec, const ProductOperands& operands,
                       const Division& division) {
  const bool apart = division.splits > 1;
  by_parts::Arguments args{};
  args.left = left_factor(spec, operands.a);
  args.right = right_factor(spec, operands.b);
  args.m = static_cast<int>(spec.m);
  args.n = static_cast<int>(spec.n);
  args.k = static_cast<int>(spec.k);
  args.split_depth = static_cast<int>(division.stages * kStageDepth);
  args.splits = static_cast<int>(division.splits);
  args.c = static_cast<float*>(apart ? stream.workspace() : operands.c);
  args.c_stride = apart ? sums_stride(spec) : spec.ldc;
  args.c_step = apart ? spec.m * args.c_stride : 0;
  args.c_aligned = is_aligned(args.c, args.c_stride, 2);
  args.alpha = static_cast<float>(operands.alpha);
  args.beta = apart ? 0 : static_cast<float>(operands.beta);
  const auto* bias = static_cast<const float*>(operands.bias);
  args.bias = apart ? nullptr : bias;
  by_parts::multiply(stream, args, static_cast<int>(processors_of(stream.gpu(), spec)));
  if (!apart) return;
  by_parts::add_sums(
      stream, {args.c, args.c_stride, args.c_step, division.splits, spec.m, spec.n,
               static_cast<float*>(operands.c), spec.ldc, static_cast<float>(operands.beta), bias});
}

}  // namespace

void multiply(Blas& blas, CudaStream& stream, const ProductSpec& spec,
              const ProductOperands& operands) {
  if (const auto division = division_of(stream.gpu(), spec, operands)) {
    return multiply_by_parts(stream, spec, operands, *division);
  }
  blas.product(spec).run(stream, operands.alpha, operands.a, operands.b, operands.beta, operands.c,
                         operands.c, operands.bias);
}

}  // namespace sluice::kernels::matmul::cuda
