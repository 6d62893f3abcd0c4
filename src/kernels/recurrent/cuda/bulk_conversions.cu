#include <algorithm>

#include "kernels/recurrent/cuda/bulk_conversions.h"
#include "kernels/recurrent/cuda/dispatch_storage.h"
#include "kernels/recurrent/cuda/neighbours.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr int kBlock = 256;
constexpr std::size_t kMostAtOnce = 128;  ///< segments, which travel as a kernel's argument

struct Part {
  Segment segments[kMostAtOnce];
};

constexpr int kFour = 4;
template <typename T>
using Four = Neighbours<T, kFour>;

enum class Conversion { kNarrow, kWiden, kAddWidened };

template <typename T, Conversion kConversion>
__device__ void convert_one(float* wide, T* stored) {
  if constexpr (kConversion == Conversion::kNarrow) {
    store(stored, *wide);
  } else if constexpr (kConversion == Conversion::kWiden) {
    *wide = load(stored);
  } else {
    *wide += load(stored);
  }
}

/// A row of blocks for each segment; four numbers at a time where both sides are aligned to them.
template <typename T, Conversion kConversion>
__global__ void convert_kernel(const Part part) {
  const Segment segment = part.segments[blockIdx.y];
  float* const wide = segment.wide;
  T* const stored = static_cast<T*>(segment.stored);
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t stride = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  const std::int64_t fours =
      is_aligned(wide, 0, kFour) && is_aligned(stored, 0, kFour) ? segment.count / 4 : 0;
  for (std::int64_t i = first; i < fours; i += stride) {
    Four<float> from;
    Four<T> to;
    if constexpr (kConversion != Conversion::kWiden) from = reinterpret_cast<Four<float>*>(wide)[i];
    if constexpr (kConversion != Conversion::kNarrow) to = reinterpret_cast<Four<T>*>(stored)[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) convert_one<T, kConversion>(from.at + k, to.at + k);
    if constexpr (kConversion == Conversion::kNarrow) {
      store_neighbours(stored + 4 * i, to);
    } else {
      store_neighbours(wide + 4 * i, from);
    }
  }
  for (std::int64_t i = 4 * fours + first; i < segment.count; i += stride) {
    convert_one<T, kConversion>(wide + i, stored + i);
  }
}

template <Conversion kConversion>
void convert(cudaStream_t stream, DType storage, const std::vector<Segment>& segments) {
  for (std::size_t first = 0; first < segments.size(); first += kMostAtOnce) {
    const std::size_t count = std::min(kMostAtOnce, segments.size() - first);
    Part part{};
    std::copy_n(segments.begin() + static_cast<std::ptrdiff_t>(first), count, part.segments);
    std::int64_t longest = 1;
    for (std::size_t i = 0; i < count; ++i) longest = std::max(longest, part.segments[i].count);
    const dim3 grid(runtime::cuda::blocks_for((longest + 3) / 4, kBlock),
                    static_cast<unsigned>(count));
    dispatch_device_storage(storage, [&](auto tag) {
      using T = typename decltype(tag)::type;
      convert_kernel<T, kConversion><<<grid, kBlock, 0, stream>>>(part);
    });
    runtime::cuda::check(cudaGetLastError(), "queue a conversion of recurrent weights");
  }
}

}  // namespace

void Segments::add(const Segment& segment) {
  const auto width = static_cast<std::int64_t>(base::size_of(storage_));
  for (Segment& other : segments_) {
    const bool continues =
        segment.wide == other.wide + other.count &&
        segment.stored == static_cast<std::byte*>(other.stored) + other.count * width;
    if (!continues) continue;
    other.count += segment.count;
    return;
  }
  segments_.push_back(segment);
}

void Segments::narrow(cudaStream_t stream) const {
  convert<Conversion::kNarrow>(stream, storage_, segments_);
}

void Segments::widen(cudaStream_t stream, bool accumulate) const {
  const auto queue = accumulate ? convert<Conversion::kAddWidened> : convert<Conversion::kWiden>;
  queue(stream, storage_, segments_);
}

}  // namespace sluice::kernels::recurrent::cuda
