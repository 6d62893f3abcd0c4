#include <cuda_bf16.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <cub/device/device_select.cuh>

#include "kernels/optimizer/cuda/optimizer.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::optimizer::cuda {
namespace {

constexpr int kBlock = kElementsPerMark;

struct IsMarked {
  __host__ __device__ bool operator()(std::uint8_t mark) const { return mark == kMarked; }
};

cudaError_t select(void* workspace, std::size_t& bytes, const std::uint8_t* marks,
                   std::int32_t* chunks, std::int32_t* count, std::int64_t marks_count,
                   cudaStream_t stream) {
  return cub::DeviceSelect::Flagged(workspace, bytes, thrust::counting_iterator<std::int32_t>(0),
                                    thrust::make_transform_iterator(marks, IsMarked{}), chunks,
                                    count, marks_count, stream);
}

struct Problem {
  const std::int32_t* chunks;
  const std::int32_t* count;
  std::int32_t capacity;
  std::int64_t elements;
};

__device__ float to_float(float value) { return value; }
__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ void store(float* to, float value) { *to = value; }
__device__ void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

/// A block has a chunk, a thread an element of it.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    pack_kernel(Problem p, const float* gradients, T* packed) {
  const std::int32_t chunk = blockIdx.x;
  const std::int32_t listed = *p.count;
  float value = 0;
  if (chunk < listed) {
    const std::int64_t from = std::int64_t{p.chunks[chunk]} * kBlock + threadIdx.x;
    if (from < p.elements) value = gradients[from];
  }
  if (listed > p.capacity && chunk == 0 && threadIdx.x == 0) value = nanf("");
  store(packed + std::int64_t{chunk} * kBlock + threadIdx.x, value);
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    unpack_kernel(Problem p, const T* packed, float* gradients) {
  const std::int32_t chunk = blockIdx.x;
  if (chunk >= *p.count) return;
  const std::int64_t to = std::int64_t{p.chunks[chunk]} * kBlock + threadIdx.x;
  if (to < p.elements) gradients[to] = to_float(packed[std::int64_t{chunk} * kBlock + threadIdx.x]);
}

Problem problem_of(const PackedChunksArgs& args) {
  return {args.list.chunks.data_as<const std::int32_t>(),
          args.list.count.data_as<const std::int32_t>(),
          static_cast<std::int32_t>(args.list.chunks.size(0)), args.gradients.size(0)};
}

/// Room for all marks, which may be more than have a place, behind CUB's own.
std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

std::size_t select_bytes(std::int64_t marks) {
  std::size_t bytes = 0;
  runtime::cuda::check(select(nullptr, bytes, nullptr, nullptr, nullptr, marks, nullptr),
                       "plan the listing of marked chunks");
  return aligned(bytes);
}

}  // namespace

std::size_t list_marked_bytes(std::int64_t marks) {
  return select_bytes(marks) + static_cast<std::size_t>(marks) * sizeof(std::int32_t);
}

void list_marked(Stream& stream, const ListMarkedArgs& args) {
  const std::int64_t marks = args.marks.size(0);
  std::size_t bytes = select_bytes(marks);
  auto* all = reinterpret_cast<std::int32_t*>(static_cast<std::byte*>(args.workspace) + bytes);
  runtime::cuda::check(
      select(args.workspace, bytes, args.marks.data_as<const std::uint8_t>(), all,
             args.list.count.data_as<std::int32_t>(), marks, runtime::cuda::handle_of(stream)),
      "list marked chunks");
  const auto listed = static_cast<std::size_t>(std::min(marks, args.list.chunks.size(0)));
  stream.copy(args.list.chunks.data(), all, listed * sizeof(std::int32_t),
              runtime::CopyKind::kDeviceToDevice);
}

void pack_chunks(Stream& stream, const PackedChunksArgs& args) {
  const Problem p = problem_of(args);
  if (p.capacity == 0) return;
  const auto grid = static_cast<unsigned>(p.capacity);
  const auto* gradients = args.gradients.data_as<const float>();
  if (args.packed.dtype() == base::DType::kBFloat16) {
    runtime::cuda::launch(stream, "pack marked chunks", pack_kernel<__nv_bfloat16>, grid, kBlock, 0,
                          p, gradients, static_cast<__nv_bfloat16*>(args.packed.data()));
  } else {
    runtime::cuda::launch(stream, "pack marked chunks", pack_kernel<float>, grid, kBlock, 0, p,
                          gradients, args.packed.data_as<float>());
  }
}

void unpack_chunks(Stream& stream, const PackedChunksArgs& args) {
  const Problem p = problem_of(args);
  if (p.capacity == 0) return;
  const auto grid = static_cast<unsigned>(p.capacity);
  auto* gradients = args.gradients.data_as<float>();
  if (args.packed.dtype() == base::DType::kBFloat16) {
    runtime::cuda::launch(stream, "unpack marked chunks", unpack_kernel<__nv_bfloat16>, grid,
                          kBlock, 0, p, static_cast<const __nv_bfloat16*>(args.packed.data()),
                          gradients);
  } else {
    runtime::cuda::launch(stream, "unpack marked chunks", unpack_kernel<float>, grid, kBlock, 0, p,
                          args.packed.data_as<const float>(), gradients);
  }
}

}  // namespace sluice::kernels::optimizer::cuda
