#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "kernels/recurrent/cuda/storage.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr int kBlock = 256;

/// One thread draws the words of four units.
template <typename T>
__global__ void dropout_kernel(const Dropout args, const std::uint32_t threshold,
                               const float scale) {
  const std::int64_t groups = (args.width + 3) / 4;
  const std::int64_t count = args.steps * args.rows * groups;
  const std::int64_t stride = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  const runtime::DropoutKey key = args.source.key();
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += stride) {
    const std::int64_t group = i % groups, place = i / groups;
    const std::int64_t row = place % args.rows, t = args.t + place / args.rows;
    const auto id = static_cast<std::uint32_t>(args.row_ids ? args.row_ids[row] : row);
    const auto words =
        key.words(id, static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(group));
    T* values = static_cast<T*>(args.values) + place * args.width + 4 * group;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (4 * group + k >= args.width) continue;
      store(values + k, words[k] >= threshold ? load(values + k) * scale : 0.0f);
    }
  }
}

}  // namespace

void apply_dropout(cudaStream_t stream, DType storage, const Dropout& args) {
  const std::int64_t count = args.steps * args.rows * ((args.width + 3) / 4);
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dropout_kernel<T><<<runtime::cuda::blocks_for(count, kBlock), kBlock, 0, stream>>>(
        args, runtime::dropout_threshold(args.rate), static_cast<float>(1 / (1 - args.rate)));
  });
  runtime::cuda::check(cudaGetLastError(), "queue the dropout between recurrent layers");
}

}  // namespace sluice::kernels::recurrent::cuda
