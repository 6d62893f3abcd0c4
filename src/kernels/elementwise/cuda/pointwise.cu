#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/elementwise/cuda/groups.h"

// Compiled without fusing products into sums, so that results are those of the cpu leaves.
namespace sluice::kernels::elementwise::cuda {
namespace {

using base::DType;

template <typename T>
struct Scale {
  static constexpr bool kReadsTarget = false;
  T factor;
  __device__ T operator()(T x, T) const { return factor * x; }
};

template <typename T>
struct Accumulate {
  static constexpr bool kReadsTarget = true;
  T factor;
  __device__ T operator()(T x, T y) const { return y + factor * x; }
};

template <typename T>
struct Tanh {
  static constexpr bool kReadsTarget = false;
  __device__ T operator()(T x, T) const { return ::tanh(x); }
};

template <typename T>
__global__ void __launch_bounds__(kBlock) fill_kernel(T* x, std::int64_t count, T value) {
  for (std::int64_t i = first_of_grid(); i < count; i += grid_stride()) x[i] = value;
}

template <typename T>
void fill_with(Stream& stream, const Tensor& x, T value) {
  const std::int64_t count = x.element_count();
  runtime::cuda::launch(stream, "fill a tensor", fill_kernel<T>,
                        runtime::cuda::blocks_for(count, kBlock), kBlock, 0, x.data_as<T>(), count,
                        value);
}

/// dx = dy * (1 - y^2); dx may be dy.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    tanh_backward_kernel(const T* y, const T* dy, T* dx, std::int64_t count, bool aligned) {
  const std::int64_t groups = aligned ? count / 4 : 0;
  for (std::int64_t g = first_of_grid(); g < groups; g += grid_stride()) {
    const Group<T> output = reinterpret_cast<const Group<T>*>(y)[g];
    Group<T> gradient = reinterpret_cast<const Group<T>*>(dy)[g];
#pragma unroll
    for (int i = 0; i < 4; ++i) gradient.at[i] *= T{1} - output.at[i] * output.at[i];
    runtime::cuda::store_neighbours(dx + 4 * g, gradient);
  }
  for (std::int64_t i = 4 * groups + first_of_grid(); i < count; i += grid_stride()) {
    dx[i] = dy[i] * (T{1} - y[i] * y[i]);
  }
}

}  // namespace

void fill(Stream& stream, const Tensor& x, double value) {
  if (x.dtype() == DType::kInt32) return fill_with(stream, x, static_cast<std::int32_t>(value));
  base::dispatch_master(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_with(stream, x, static_cast<T>(value));
  });
}

void scale(Stream& stream, const Tensor& x, double factor) {
  base::dispatch_master(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    pointwise(stream, "scale a tensor", x.data_as<const T>(), x.data_as<T>(), x.element_count(),
              Scale<T>{static_cast<T>(factor)});
  });
}

void accumulate(Stream& stream, double factor, const Tensor& x, const Tensor& y) {
  base::dispatch_master(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    pointwise(stream, "add tensors", x.data_as<const T>(), y.data_as<T>(), x.element_count(),
              Accumulate<T>{static_cast<T>(factor)});
  });
}

void tanh_forward(Stream& stream, const Tensor& x, const Tensor& y) {
  base::dispatch_master(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    pointwise(stream, "take the tanh of a tensor", x.data_as<const T>(), y.data_as<T>(),
              x.element_count(), Tanh<T>{});
  });
}

void tanh_backward(Stream& stream, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  base::dispatch_master(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto *output = y.data_as<const T>(), *gradient = dy.data_as<const T>();
    auto* result = dx.data_as<T>();
    const std::int64_t count = y.element_count();
    const bool aligned = is_aligned(output) && is_aligned(gradient) && is_aligned(result);
    runtime::cuda::launch(stream, "take the gradient of a tanh", tanh_backward_kernel<T>,
                          runtime::cuda::blocks_for(aligned ? (count + 3) / 4 : count, kBlock),
                          kBlock, 0, output, gradient, result, count, aligned);
  });
}

}  // namespace sluice::kernels::elementwise::cuda
