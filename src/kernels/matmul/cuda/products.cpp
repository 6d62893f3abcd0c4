#include "kernels/matmul/cuda/products.h"

#include <algorithm>

#include "kernels/matmul/cuda/parts.h"

namespace sluice::kernels::matmul::cuda {
namespace {

using runtime::cuda::Blas;
using runtime::cuda::CudaStream;
using runtime::cuda::GpuProperties;
using runtime::cuda::ProductSpec;

constexpr std::int64_t kTile = 128;     ///< rows and columns of a block's tile of c
constexpr std::int64_t kAligned = 8;    ///< bfloat16 in the 16 bytes that rows begin at
constexpr std::int64_t kPartBytes = 2;  ///< of a bfloat16
constexpr auto kMostBytes = static_cast<std::int64_t>(Blas::kLargeWorkspaceBytes);

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t rounded_up(std::int64_t a, std::int64_t b) { return divided_up(a, b) * b; }

/// How a product goes by parts. Tensor cores cut off where they add, which shows in long sums (of
/// positive terms 50 times float32's own error at a depth of 4096): so they add up chunks of the
/// depth, and chunks are added with rounding.
struct Geometry {
  std::int64_t rows, columns;  ///< of a block of c, which is multiplied at a time
  std::int64_t chunk;          ///< of the depth
  std::int64_t abreast;  ///< chunks that are multiplied at a time, each added to sums of its own
  std::int64_t rounds;   ///< until all chunks are
  bool apart;            ///< sums are added up in the workspace, not in c

  std::int64_t part_depth() const { return abreast * chunk * kPartProducts; }
  std::int64_t left_bytes() const { return rounded_up(rows, kAligned) * part_depth() * kPartBytes; }
  std::int64_t right_bytes() const {
    return rounded_up(columns, kAligned) * part_depth() * kPartBytes;
  }
  std::int64_t sums_stride() const { return rounded_up(columns, kAligned); }
  std::int64_t bytes() const {
    const auto wide = static_cast<std::int64_t>(sizeof(float));
    return left_bytes() + right_bytes() + (apart ? abreast * rows * sums_stride() * wide : 0);
  }
};

/// More than one where the tiles of c are fewer than half of the multiprocessors.
std::int64_t chunks_abreast(const Geometry& whole, std::int64_t chunks, std::int64_t processors) {
  const std::int64_t tiles = divided_up(whole.rows, kTile) * divided_up(whole.columns, kTile);
  if (2 * tiles > processors) return 1;
  Geometry tried = whole;
  tried.apart = true;
  tried.abreast = std::min(chunks, divided_up(processors, tiles));
  while (tried.abreast > 1 && tried.bytes() > kMostBytes) --tried.abreast;
  return tried.abreast;
}

bool is_aligned(const ProductSpec& spec, const ProductOperands& operands) {
  const auto bits = reinterpret_cast<std::uintptr_t>(operands.c) |
                    reinterpret_cast<std::uintptr_t>(operands.bias);
  return bits % 16 == 0 && spec.ldc % 4 == 0;
}

/// All but where sums are added up, which the operands say.
Geometry geometry_of(const ProductSpec& spec, std::int64_t processors) {
  constexpr std::int64_t kDeepest = 256;
  const std::int64_t chunks = divided_up(spec.k, kDeepest);
  Geometry made{spec.m, spec.n, rounded_up(divided_up(spec.k, chunks), kAligned), 1, 1, false};
  made.abreast = chunks_abreast(made, chunks, processors);
  made.rounds = divided_up(chunks, made.abreast);
  made.chunk = rounded_up(divided_up(spec.k, made.rounds * made.abreast), kAligned);
  return made;
}

Geometry geometry_of(const ProductSpec& spec, const ProductOperands& operands,
                     std::int64_t processors) {
  // Sums that begin with c are rounded to its size once a round.
  constexpr std::int64_t kMostOntoSums = 4;
  Geometry made = geometry_of(spec, processors);
  made.apart = made.abreast > 1 || !is_aligned(spec, operands) ||
               (operands.beta != 0 && made.rounds > kMostOntoSums);
  while (made.bytes() > kMostBytes) {
    std::int64_t& longer = made.rows > made.columns ? made.rows : made.columns;
    longer = rounded_up(divided_up(longer, 2), kTile);
  }
  return made;
}

std::int64_t processors_of(const GpuProperties& gpu, const ProductSpec& spec) {
  return spec.processors > 0 ? spec.processors : gpu.processors;
}

/// A block of c [rows, columns] from (row, column) on.
class Block {
 public:
  Block(const ProductSpec& spec, const ProductOperands& operands, const Geometry& geometry,
        std::byte* memory, std::int64_t row, std::int64_t column)
      : spec_(spec),
        operands_(operands),
        geometry_(geometry),
        row_(row),
        column_(column),
        rows_(std::min(geometry.rows, spec.m - row)),
        columns_(std::min(geometry.columns, spec.n - column)),
        left_(reinterpret_cast<__nv_bfloat16*>(memory)),
        right_(reinterpret_cast<__nv_bfloat16*>(memory + geometry.left_bytes())),
        sums_(reinterpret_cast<float*>(memory + geometry.left_bytes() + geometry.right_bytes())),
        c_(static_cast<float*>(operands.c) + row * spec.ldc + column),
        bias_(operands.bias ? static_cast<const float*>(operands.bias) + column : nullptr) {}

  void run(Blas& blas, CudaStream& stream) const {
    for (std::int64_t round = 0; round < geometry_.rounds; ++round) {
      split(stream, left(round), right(round));
      multiply_round(blas, stream, round);
    }
    if (!geometry_.apart) return;
    add_sums(stream,
             {sums_, geometry_.sums_stride(), rows_ * geometry_.sums_stride(), geometry_.abreast,
              rows_, columns_, c_, spec_.ldc, static_cast<float>(operands_.beta), bias_});
  }

 private:
  /// What a round takes of a factor whose rows or columns begin at `first`.
  SplitMatrix factor(const void* data, std::int64_t stride, bool depth_in_rows, std::int64_t first,
                     std::int64_t count, std::int64_t round, __nv_bfloat16* to) const {
    const std::int64_t wanted = geometry_.abreast * geometry_.chunk, begin = round * wanted;
    const std::int64_t depth = std::clamp<std::int64_t>(spec_.k - begin, 0, wanted);
    const auto* from = static_cast<const float*>(data);
    const std::int64_t padded = rounded_up(count, kAligned);
    if (depth_in_rows) {
      return {from + begin * stride + first,
              stride,
              depth,
              count,
              wanted,
              padded,
              geometry_.chunk,
              true,
              to};
    }
    return {from + first * stride + begin,
            stride,
            count,
            depth,
            padded,
            wanted,
            geometry_.chunk,
            false,
            to};
  }
  SplitMatrix left(std::int64_t round) const {
    return factor(operands_.a, spec_.lda, spec_.transpose_a, row_, rows_, round, left_);
  }
  SplitMatrix right(std::int64_t round) const {
    return factor(operands_.b, spec_.ldb, !spec_.transpose_b, column_, columns_, round, right_);
  }

  void multiply_round(Blas& blas, CudaStream& stream, std::int64_t round) const {
    const bool first = round == 0, last = round + 1 == geometry_.rounds;
    ProductSpec parts;
    parts.m = rows_;
    parts.n = columns_;
    parts.k = geometry_.chunk * kPartProducts;
    parts.input = base::DType::kBFloat16;
    parts.transpose_a = spec_.transpose_a;
    parts.transpose_b = spec_.transpose_b;
    set_steps(parts.lda, parts.stride_a, spec_.transpose_a, rows_, parts.k);
    set_steps(parts.ldb, parts.stride_b, !spec_.transpose_b, columns_, parts.k);
    parts.ldc = geometry_.apart ? geometry_.sums_stride() : spec_.ldc;
    parts.batch = geometry_.abreast;
    parts.stride_c = rows_ * parts.ldc;
    parts.bias = bias_ != nullptr && !geometry_.apart && last;
    parts.processors = spec_.processors;
    float* const c = geometry_.apart ? sums_ : c_;
    const double beta = !first ? 1 : geometry_.apart ? 0 : operands_.beta;
    blas.product(parts).run(stream, operands_.alpha, left_, right_, beta, c, c,
                            parts.bias ? bias_ : nullptr);
  }
  /// From a row to the next, and from a chunk to the next, of a factor's parts.
  void set_steps(std::int64_t& row, std::int64_t& chunk, bool depth_in_rows, std::int64_t count,
                 std::int64_t depth) const {
    row = depth_in_rows ? rounded_up(count, kAligned) : geometry_.part_depth();
    chunk = depth_in_rows ? depth * row : depth;
  }

  const ProductSpec& spec_;
  const ProductOperands& operands_;
  const Geometry& geometry_;
  const std::int64_t row_, column_, rows_, columns_;
  __nv_bfloat16 *const left_, *const right_;
  float *const sums_, *const c_;
  const float* const bias_;
};

void multiply_by_parts(Blas& blas, CudaStream& stream, const ProductSpec& spec,
                       const ProductOperands& operands) {
  const Geometry geometry = geometry_of(spec, operands, processors_of(stream.gpu(), spec));
  auto* memory = static_cast<std::byte*>(blas.large_workspace(stream));
  for (std::int64_t row = 0; row < spec.m; row += geometry.rows) {
    for (std::int64_t column = 0; column < spec.n; column += geometry.columns) {
      Block(spec, operands, geometry, memory, row, column).run(blas, stream);
    }
  }
}

}  // namespace

bool goes_by_parts(const GpuProperties& gpu, const ProductSpec& spec) {
  constexpr int kHopper = 9;
  if (spec.input != base::DType::kFloat32 || spec.tf32 || spec.batch != 1 || spec.device_scalars ||
      gpu.capability / 10 != kHopper) {
    return false;
  }
  // Costs in multiply-adds of float32, of which an H200 does 23 in a picosecond: of a term by
  // parts, of a factor's number that is split, and of a round's launches.
  constexpr double kPerTerm = .42, kPerNumber = 110, kPerRound = 6e7, kGain = .85;
  const auto m = static_cast<double>(spec.m), n = static_cast<double>(spec.n),
             k = static_cast<double>(spec.k);
  const auto tiles = static_cast<double>(rounded_up(spec.m, kTile) * rounded_up(spec.n, kTile));
  const auto rounds = static_cast<double>(geometry_of(spec, processors_of(gpu, spec)).rounds);
  return kPerTerm * tiles * k + kPerNumber * (m + n) * k + kPerRound * rounds < kGain * m * n * k;
}

void multiply(Blas& blas, CudaStream& stream, const ProductSpec& spec,
              const ProductOperands& operands) {
  if (goes_by_parts(stream.gpu(), spec)) return multiply_by_parts(blas, stream, spec, operands);
  blas.product(spec).run(stream, operands.alpha, operands.a, operands.b, operands.beta, operands.c,
                         operands.c, operands.bias);
}

}  // namespace sluice::kernels::matmul::cuda
