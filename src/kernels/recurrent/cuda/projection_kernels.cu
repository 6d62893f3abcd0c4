#include "kernels/recurrent/cuda/cell_grid.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

template <typename T>
__global__ void finish_kernel(const FinishProjection args) {
  for_units(args.rows, args.output, [&](std::int64_t row, std::int64_t unit) {
    const std::int64_t at = row * args.output + unit;
    const bool active = is_active(args.lengths, row, args.t);
    T value;
    store(&value, args.projected[at]);
    static_cast<T*>(args.h_after)[at] = active ? value : static_cast<const T*>(args.h_before)[at];
    T* y = static_cast<T*>(args.y) + row * args.y_stride + unit;
    if (active) {
      *y = value;
    } else {
      store(y, 0);
    }
  });
}

template <typename T>
__global__ void split_kernel(const SplitGradient args) {
  for_units(args.rows, args.output, [&](std::int64_t row, std::int64_t unit) {
    const std::int64_t at = row * args.output + unit;
    const bool active = is_active(args.lengths, row, args.t);
    float dh = args.dh[at];
    if (active && args.dy) dh += load(static_cast<const T*>(args.dy) + row * args.dy_stride + unit);
    store(static_cast<T*>(args.through) + at, active ? dh : 0.0f);
    args.past[at] = active ? 0.0f : dh;
  });
}

}  // namespace

void finish_projection(cudaStream_t stream, DType storage, const FinishProjection& args) {
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    finish_kernel<T><<<cell_grid(args.rows, args.output), kCellBlock, 0, stream>>>(args);
  });
  check_cell_launch();
}

void split_gradient(cudaStream_t stream, DType storage, const SplitGradient& args) {
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    split_kernel<T><<<cell_grid(args.rows, args.output), kCellBlock, 0, stream>>>(args);
  });
  check_cell_launch();
}

}  // namespace sluice::kernels::recurrent::cuda
