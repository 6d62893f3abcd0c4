#include "base/dtype.h"
#include "kernels/pooling/cuda/pooling.h"
#include "kernels/pooling/cuda/sequence.h"

namespace sluice::kernels::pooling::cuda {
namespace {

/// Where feature f of a row of some length ends.
__device__ std::int64_t last_step(std::int64_t f, std::int64_t forward_features,
                                  std::int64_t length) {
  return f < forward_features ? length - 1 : 0;
}

// In all of these a thread has one feature of one row, i = row * features + f.

template <typename T>
__global__ void __launch_bounds__(kBlock)
    last_kernel(Extent e, std::int64_t forward_features, const T* x, T* y) {
  for (std::int64_t i = first_of_grid(); i < e.step(); i += grid_stride()) {
    const std::int64_t length = e.length(i / e.features);
    y[i] = length > 0 ? x[last_step(i % e.features, forward_features, length) * e.step() + i]
                      : narrowed<T>(0);
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlock) mean_kernel(Extent e, const T* x, T* y) {
  for (std::int64_t i = first_of_grid(); i < e.step(); i += grid_stride()) {
    const std::int64_t length = e.length(i / e.features);
    Wide<T> sum = 0;
#pragma unroll 8
    for (std::int64_t t = 0; t < length; ++t) sum += widened(x[t * e.step() + i]);
    y[i] = narrowed<T>(sum / static_cast<Wide<T>>(length > 0 ? length : 1));
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    max_kernel(Extent e, const T* x, T* y, std::int32_t* positions) {
  for (std::int64_t i = first_of_grid(); i < e.step(); i += grid_stride()) {
    const std::int64_t length = e.length(i / e.features);
    Wide<T> largest = length > 0 ? widened(x[i]) : Wide<T>{0};
    std::int32_t position = length > 0 ? 0 : -1;
#pragma unroll 8
    for (std::int64_t t = 1; t < length; ++t) {
      const Wide<T> value = widened(x[t * e.step() + i]);
      if (value > largest || (isnan(value) && !isnan(largest))) {
        largest = value;
        position = static_cast<std::int32_t>(t);
      }
    }
    y[i] = narrowed<T>(largest);
    positions[i] = position;
  }
}

/// Which step each feature's gradient goes to, as the forward left it or found it.
struct Source {
  Kind kind;
  std::int64_t forward_features;
  const std::int32_t* positions;

  __device__ std::int64_t step(std::int64_t i, std::int64_t f, std::int64_t length) const {
    return kind == Kind::kLast ? last_step(f, forward_features, length) : positions[i];
  }
};

/// A thread an element of dx.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    backward_kernel(Extent e, Source source, const T* dy, T* dx) {
  for (std::int64_t n = first_of_grid(); n < e.elements(); n += grid_stride()) {
    const std::int64_t t = n / e.step(), i = n % e.step(), length = e.length(i / e.features);
    T gradient = narrowed<T>(0);
    if (t < length) {
      if (source.kind == Kind::kMean) {
        gradient = narrowed<T>(widened(dy[i]) / static_cast<Wide<T>>(length));
      } else if (t == source.step(i, i % e.features, length)) {
        gradient = dy[i];
      }
    }
    dx[n] = gradient;
  }
}

}  // namespace

void forward(Stream& stream, const ForwardArgs& args) {
  if (args.kind == Kind::kAttention) return attention_forward(stream, args);
  base::dispatch_float(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Extent e(args.x, args.lengths);
    const auto* x = args.x.data_as<const T>();
    auto* y = args.y.data_as<T>();
    const unsigned blocks = runtime::cuda::blocks_for(e.step(), kBlock);
    if (args.kind == Kind::kLast) {
      runtime::cuda::launch(stream, "take the last outputs", last_kernel<T>, blocks, kBlock, 0, e,
                            args.forward_features, x, y);
    } else if (args.kind == Kind::kMean) {
      runtime::cuda::launch(stream, "take means over time", mean_kernel<T>, blocks, kBlock, 0, e, x,
                            y);
    } else {
      runtime::cuda::launch(stream, "take the largest over time", max_kernel<T>, blocks, kBlock, 0,
                            e, x, y, args.positions.data_as<std::int32_t>());
    }
  });
}

void backward(Stream& stream, const BackwardArgs& args, const AttentionScratch& scratch) {
  const ForwardArgs& forward = args.forward;
  if (forward.kind == Kind::kAttention) return attention_backward(stream, args, scratch);
  base::dispatch_float(args.dx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Extent e(args.dx, forward.lengths);
    const Source source{forward.kind, forward.forward_features,
                        forward.positions.data_as<const std::int32_t>()};
    runtime::cuda::launch(stream, "hand gradients back to steps", backward_kernel<T>,
                          runtime::cuda::blocks_for(e.elements(), kBlock), kBlock, 0, e, source,
                          args.dy.data_as<const T>(), args.dx.data_as<T>());
  });
}

}  // namespace sluice::kernels::pooling::cuda
