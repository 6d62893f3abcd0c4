#include "kernels/optimizer/cuda/optimizer.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/reduce.h"

namespace sluice::kernels::optimizer::cuda {
namespace {

using runtime::cuda::kAllLanes;
using runtime::cuda::kWarp;

constexpr int kBlock = 256;
/// Of a warp: few, so that blocks with chunks to zero end beside those without.
constexpr int kChunks = 8;

/// Gradients as bytes, zeros of all types; chunks are as long as a mark reaches.
struct Problem {
  std::byte* gradients;
  std::int64_t bytes, chunk_bytes;
  std::uint8_t* marks;
  std::int64_t chunks;
  bool aligned;  ///< whether 16 bytes may be written at once
};

/// A warp zeroes bytes, whole words of four of them.
__device__ void zero(std::byte* to, std::int64_t bytes, bool aligned) {
  const int lane = threadIdx.x % kWarp;
  const std::int64_t wide = aligned ? bytes / 16 : 0;
  for (std::int64_t i = lane; i < wide; i += kWarp) reinterpret_cast<uint4*>(to)[i] = uint4{};
  for (std::int64_t i = 4 * wide + lane; i < bytes / 4; i += kWarp) {
    reinterpret_cast<std::uint32_t*>(to)[i] = 0;
  }
}

/// A lane looks at the mark of a chunk.
__global__ void __launch_bounds__(kBlock) zero_kernel(Problem p) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const std::int64_t first = (std::int64_t{blockIdx.x} * (kBlock / kWarp) + warp) * kChunks;
  const std::int64_t own = first + lane;
  const std::uint8_t mark = lane < kChunks && own < p.chunks ? p.marks[own] : kUnmarked;
  if (mark == kMarked) p.marks[own] = kUnmarked;
  unsigned marked = __ballot_sync(kAllLanes, mark != kUnmarked);
  while (marked != 0) {
    const std::int64_t begin = (first + __ffs(marked) - 1) * p.chunk_bytes;
    marked &= marked - 1;
    const std::int64_t left = p.bytes - begin;
    zero(p.gradients + begin, left < p.chunk_bytes ? left : p.chunk_bytes, p.aligned);
  }
}

}  // namespace

void zero_gradients(Stream& stream, const ZeroGradientsArgs& args) {
  constexpr int kOfBlock = kBlock / kWarp * kChunks;
  const Tensor& gradients = args.gradients;
  Problem p{};
  p.gradients = static_cast<std::byte*>(gradients.data());
  p.bytes = static_cast<std::int64_t>(gradients.byte_size());
  p.chunk_bytes = kElementsPerMark * static_cast<std::int64_t>(base::size_of(gradients.dtype()));
  p.marks = args.marks.values.data_as<std::uint8_t>();
  p.chunks = mark_count(gradients.size(0));
  p.aligned = reinterpret_cast<std::uintptr_t>(p.gradients) % sizeof(uint4) == 0;
  runtime::cuda::launch(stream, "zero what is marked", zero_kernel,
                        static_cast<unsigned>((p.chunks + kOfBlock - 1) / kOfBlock), kBlock, 0, p);
}

}  // namespace sluice::kernels::optimizer::cuda
