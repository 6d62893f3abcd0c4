#include "kernels/attention_decoder/cuda/row_kernels.h"
#include "kernels/attention_decoder/cuda/vectors.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

using runtime::cuda::launch;

constexpr int kThreads = 256;

/// Rows of the caller's, without padding, which begin anywhere if they are not `aligned`.
template <typename S>
struct PlainRows {
  S* data;
  std::int64_t width;
  bool aligned;

  PlainRows(S* rows, std::int64_t row_width)
      : data(rows),
        width(row_width),
        aligned(row_width % kVector == 0 &&
                reinterpret_cast<std::uintptr_t>(rows) % kWidestBytes == 0) {}

  /// Zero beyond the width.
  __device__ auto load(std::int64_t row, std::int64_t column) const {
    Four<Wide<std::remove_const_t<S>>> values;
    const S* const from = data + row * width + column;
    if (aligned) return column < width ? load_four(from) : values;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (column + i < width) values.x[i] = from[i];
    }
    return values;
  }
  __device__ void store(std::int64_t row, std::int64_t column, const Four<Wide<S>>& values) const {
    S* const to = data + row * width + column;
    if (aligned) {
      if (column < width) store_four(to, values);
      return;
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (column + i < width) to[i] = static_cast<S>(values.x[i]);
    }
  }
};

/// blockIdx.y: the row, of which a thread has four columns.
template <typename S>
__global__ void __launch_bounds__(kThreads) output_kernel(OutputArgs<S> args, PlainRows<S> a) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector;
  const std::int64_t row = blockIdx.y;
  if (column >= args.padded) return;
  const auto sums = load_four(args.sums + row * args.padded + column);
  const auto bias = load_four(args.bias + column);
  Four<Wide<S>> values;
  if (args.active.at(row)) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (column + i < args.width) values.x[i] = Activation<S>::tanh(sums.x[i] + bias.x[i]);
    }
  }
  a.store(row, column, values);
  store_four(args.fed + row * args.fed_stride + column, values);
}

/// Likewise.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    output_backward_kernel(OutputBackwardArgs<S> args, PlainRows<const S> a,
                           PlainRows<const S> da) {
  using W = Wide<S>;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector;
  const std::int64_t row = blockIdx.y;
  if (column >= args.padded) return;
  const auto value = a.load(row, column), gradient = da.load(row, column);
  const auto fed = load_four(args.fed + row * args.fed_stride + column);
  Four<W> d_output;
  if (args.active.at(row)) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (column + i >= args.width) continue;
      const W d_value = (gradient.x[i] + fed.x[i]) * (W(1) - value.x[i] * value.x[i]);
      d_output.x[i] = within(d_value, args.limit);
    }
  }
  store_four(args.d_output + row * args.padded + column, d_output);
}

dim3 grid_of(std::int64_t rows, std::int64_t padded) {
  return {runtime::cuda::blocks_for(padded / kVector, kThreads), static_cast<unsigned>(rows)};
}

}  // namespace

template <typename S>
void make_output(Stream& stream, const OutputArgs<S>& args) {
  launch(stream, "make a decoder's output", output_kernel<S>, grid_of(args.rows, args.padded),
         kThreads, 0, args, PlainRows<S>(args.a, args.width));
}

template <typename S>
void output_backward(Stream& stream, const OutputBackwardArgs<S>& args) {
  launch(stream, "run a decoder's output backward", output_backward_kernel<S>,
         grid_of(args.rows, args.padded), kThreads, 0, args, PlainRows<const S>(args.a, args.width),
         PlainRows<const S>(args.da, args.width));
}

template void make_output(Stream&, const OutputArgs<double>&);
template void output_backward(Stream&, const OutputBackwardArgs<double>&);
template void make_output(Stream&, const OutputArgs<float>&);
template void output_backward(Stream&, const OutputBackwardArgs<float>&);
template void make_output(Stream&, const OutputArgs<__nv_bfloat16>&);
template void output_backward(Stream&, const OutputBackwardArgs<__nv_bfloat16>&);
template void make_output(Stream&, const OutputArgs<__half>&);
template void output_backward(Stream&, const OutputBackwardArgs<__half>&);

}  // namespace sluice::kernels::attention_decoder::cuda
