#include "kernels/recurrent/cuda/tensor_map.h"

#include <array>

#include "base/check.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The CUDA library has no link to the driver's.
Encode find_encode() {
  constexpr unsigned kSince = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  runtime::cuda::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince,
                                                        cudaEnableDefault, &found),
                       "find the driver's function for tensor maps");
  if (found != cudaDriverEntryPointSuccess) {
    base::fail(ErrorCode::kDevice,
               "the NVIDIA driver has no cuTensorMapEncodeTiled; install one for CUDA 13");
  }
  return reinterpret_cast<Encode>(function);
}

CUtensorMapDataType map_type(base::DType storage) {
  if (storage == base::DType::kFloat32) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  if (storage == base::DType::kBFloat16) return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  SLUICE_ASSERT(storage == base::DType::kFloat16);
  return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

CUtensorMapSwizzle swizzle_of(std::int64_t line) {
  if (line == 32) return CU_TENSOR_MAP_SWIZZLE_32B;
  return line == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
}

}  // namespace

CUtensorMap make_tensor_map(base::DType storage, const void* data,
                            std::initializer_list<MapExtent> list) {
  static const Encode encode = find_encode();
  const MapExtent* extents = list.begin();
  constexpr std::size_t kMost = 4;
  const std::size_t rank = list.size();
  SLUICE_ASSERT(rank <= kMost);
  std::array<cuuint64_t, kMost> sizes{}, strides{};
  std::array<cuuint32_t, kMost> boxes{}, steps{};
  for (std::size_t i = 0; i < rank; ++i) {
    sizes[i] = static_cast<cuuint64_t>(extents[i].size);
    boxes[i] = static_cast<cuuint32_t>(extents[i].box);
    steps[i] = 1;
    if (i > 0) {
      strides[i - 1] = static_cast<cuuint64_t>(extents[i].stride) * base::size_of(storage);
    }
  }
  const std::int64_t line = extents[0].box * static_cast<std::int64_t>(base::size_of(storage));
  CUtensorMap map;
  const CUresult result = encode(
      &map, map_type(storage), static_cast<cuuint32_t>(rank), const_cast<void*>(data), sizes.data(),
      strides.data(), boxes.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(line),
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    base::fail(ErrorCode::kDevice,
               "could not make a tensor map of {} extents: the driver's error {}", rank,
               static_cast<int>(result));
  }
  return map;
}

}  // namespace sluice::kernels::recurrent::cuda
