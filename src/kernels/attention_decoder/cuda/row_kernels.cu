#include "kernels/attention_decoder/cuda/row_kernels.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/neighbours.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

using runtime::cuda::blocks_for;
using runtime::cuda::launch;

constexpr int kThreads = 256;

/// Calls body(i) for all i < count, in grid-stride order.
template <typename Body>
__device__ void for_each(std::int64_t count, Body body) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    body(i);
  }
}

constexpr int kMostJobs = 12;
template <typename W, typename T>
struct PackJobs {
  PackJob<W, T> jobs[kMostJobs];
};

/// blockIdx.y: the job. A thread for kWidth neighbours, which are then the same row's on both
/// sides.
template <typename W, typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    pack_kernel(const __grid_constant__ PackJobs<W, T> all) {
  using Source = runtime::cuda::Neighbours<W, kWidth>;
  const PackJob<W, T>& job = all.jobs[blockIdx.y];
  for_each(job.target_rows * job.target_width / kWidth, [&](std::int64_t unit) {
    const std::int64_t i = unit * kWidth;
    const std::int64_t row = i / job.target_width, column = i % job.target_width;
    Source values{};
    if (row < job.rows && column < job.width) {
      const std::int64_t at = row * job.source_stride + column;
      if (job.first != nullptr) values = *reinterpret_cast<const Source*>(job.first + at);
      if (job.second != nullptr) {
        const auto others = *reinterpret_cast<const Source*>(job.second + at);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) values.at[k] += others.at[k];
      }
    }
    runtime::cuda::Neighbours<T, kWidth> packed;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) packed.at[k] = static_cast<T>(values.at[k]);
    runtime::cuda::store_neighbours(job.target + row * job.target_stride + column, packed);
  });
}

/// Neighbours that a thread may take at once where whatever it moves has widths, strides and
/// addresses of whole vectors.
constexpr int kWide = 4;
bool are_whole(std::int64_t widths_and_strides, std::uintptr_t addresses) {
  return widths_and_strides % kWide == 0 && addresses % 16 == 0;
}
std::uintptr_t bits_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

/// A thread for kWidth neighbours, which are then the same row's on both sides.
template <typename From, typename To, int kWidth>
__global__ void __launch_bounds__(kThreads) copy_kernel(CopyArgs<From, To> args) {
  for_each(args.rows * args.target_width / kWidth, [&](std::int64_t unit) {
    const std::int64_t i = unit * kWidth;
    const std::int64_t row = i / args.target_width, column = i % args.target_width;
    runtime::cuda::Neighbours<From, kWidth> from{};
    if (args.source != nullptr && column < args.width) {
      from =
          *reinterpret_cast<const decltype(from)*>(args.source + row * args.source_stride + column);
    }
    runtime::cuda::Neighbours<To, kWidth> to;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) to.at[k] = static_cast<To>(from.at[k]);
    runtime::cuda::store_neighbours(args.target + row * args.target_stride + column, to);
  });
}

/// A thread for kWidth neighbours, which are then the same row's on both sides.
template <typename S, int kWidth>
__global__ void __launch_bounds__(kThreads) clean_kernel(CleanArgs<S> args) {
  using Values = runtime::cuda::Neighbours<S, kWidth>;
  for_each(args.time * args.rows * args.target_width / kWidth, [&](std::int64_t unit) {
    const std::int64_t i = unit * kWidth;
    const std::int64_t column = i % args.target_width, entry = i / args.target_width;
    const std::int64_t row = args.row_major ? entry / args.time : entry % args.rows;
    const std::int64_t t = args.row_major ? entry % args.time : entry / args.rows;
    const bool used = args.lengths == nullptr || t < args.lengths[row];
    Values values;
    if (used && column < args.width) {
      values = *reinterpret_cast<const Values*>(args.source + (t * args.rows + row) * args.width +
                                                column);
    } else {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) values.at[k] = static_cast<S>(0.0f);
    }
    runtime::cuda::store_neighbours(args.target + i, values);
  });
}

template <typename S>
__global__ void __launch_bounds__(kThreads) add_kernel(AddArgs<S> args) {
  for_each(args.rows * args.width, [&](std::int64_t i) {
    const std::int64_t row = i / args.width, column = i % args.width;
    args.out[i] =
        static_cast<S>(args.x[row * args.x_stride + column] + args.y[row * args.y_stride + column]);
  });
}

constexpr int kColumns = 32;
constexpr int kRowGroups = 32;

/// A block for 32 columns: each of its warps sums every 32nd row, then the first warp the warps.
template <typename T, typename W>
__global__ void __launch_bounds__(kColumns* kRowGroups)
    columns_kernel(std::int64_t rows, std::int64_t width, const T* x, std::int64_t stride,
                   const float* factor, W* sums, W* others) {
  __shared__ W parts[kRowGroups][kColumns];
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumns + threadIdx.x;
  W sum = 0;
  if (column < width) {
#pragma unroll 16
    for (std::int64_t row = threadIdx.y; row < rows; row += kRowGroups) {
      sum += static_cast<W>(x[row * stride + column]);
    }
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (int group = 1; group < kRowGroups; ++group) sum += parts[group][threadIdx.x];
  if (factor != nullptr) sum *= static_cast<W>(*factor);
  sums[column] += sum;
  if (others != nullptr) others[column] += sum;
}

}  // namespace

template <typename W, typename T>
void pack(Stream& stream, const std::vector<PackJob<W, T>>& jobs) {
  for (std::size_t begin = 0; begin < jobs.size(); begin += kMostJobs) {
    const std::size_t count = std::min<std::size_t>(kMostJobs, jobs.size() - begin);
    PackJobs<W, T> part;
    std::int64_t most = 1, widths = 0;
    std::uintptr_t bits = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const PackJob<W, T>& job = part.jobs[i] = jobs[begin + i];
      most = std::max(most, job.target_rows * job.target_width);
      widths |= job.source_stride | job.width | job.target_stride | job.target_width;
      bits |= bits_of(job.first) | bits_of(job.second) | bits_of(job.target);
    }
    const bool wide = are_whole(widths, bits);
    const dim3 grid(blocks_for(wide ? most / kWide : most, kThreads), static_cast<unsigned>(count));
    launch(stream, "pack a decoder's weights",
           wide ? pack_kernel<W, T, kWide> : pack_kernel<W, T, 1>, grid, kThreads, 0, part);
  }
}

template <typename From, typename To>
void copy_rows(Stream& stream, const CopyArgs<From, To>& args) {
  const bool wide =
      are_whole(args.width | args.target_width | args.source_stride | args.target_stride,
                bits_of(args.source) | bits_of(args.target));
  const std::int64_t count = args.rows * args.target_width / (wide ? kWide : 1);
  launch(stream, "copy a decoder's state",
         wide ? copy_kernel<From, To, kWide> : copy_kernel<From, To, 1>,
         blocks_for(count, kThreads), kThreads, 0, args);
}

template <typename S>
void clean_sequence(Stream& stream, const CleanArgs<S>& args) {
  constexpr int kWide = 16 / sizeof(S);
  const auto bits =
      reinterpret_cast<std::uintptr_t>(args.source) | reinterpret_cast<std::uintptr_t>(args.target);
  const bool wide = (args.width | args.target_width) % kWide == 0 && bits % 16 == 0;
  const std::int64_t count = args.time * args.rows * args.target_width / (wide ? kWide : 1);
  launch(stream, "copy a decoder's input", wide ? clean_kernel<S, kWide> : clean_kernel<S, 1>,
         blocks_for(count, kThreads), kThreads, 0, args);
}

template <typename S>
void add_rows(Stream& stream, const AddArgs<S>& args) {
  launch(stream, "add a decoder's gradients", add_kernel<S>,
         blocks_for(args.rows * args.width, kThreads), kThreads, 0, args);
}

template <typename T, typename W>
void add_columns(Stream& stream, std::int64_t rows, std::int64_t width, const T* x,
                 std::int64_t stride, const float* factor, W* sums, W* others) {
  if (rows == 0) return;
  const dim3 grid(static_cast<unsigned>((width + kColumns - 1) / kColumns));
  launch(stream, "sum a decoder's gradients", columns_kernel<T, W>, grid,
         dim3(kColumns, kRowGroups), 0, rows, width, x, stride, factor, sums, others);
}

template void pack(Stream&, const std::vector<PackJob<double, double>>&);
template void copy_rows(Stream&, const CopyArgs<double, double>&);
template void clean_sequence(Stream&, const CleanArgs<double>&);
template void add_rows(Stream&, const AddArgs<double>&);
template void add_columns(Stream&, std::int64_t, std::int64_t, const double*, std::int64_t,
                          const float*, double*, double*);
template void pack(Stream&, const std::vector<PackJob<float, float>>&);
template void copy_rows(Stream&, const CopyArgs<float, float>&);
template void clean_sequence(Stream&, const CleanArgs<float>&);
template void add_rows(Stream&, const AddArgs<float>&);
template void add_columns(Stream&, std::int64_t, std::int64_t, const float*, std::int64_t,
                          const float*, float*, float*);
template void pack(Stream&, const std::vector<PackJob<float, __nv_bfloat16>>&);
template void copy_rows(Stream&, const CopyArgs<__nv_bfloat16, float>&);
template void copy_rows(Stream&, const CopyArgs<float, __nv_bfloat16>&);
template void copy_rows(Stream&, const CopyArgs<__nv_bfloat16, __nv_bfloat16>&);
template void clean_sequence(Stream&, const CleanArgs<__nv_bfloat16>&);
template void add_rows(Stream&, const AddArgs<__nv_bfloat16>&);
template void add_columns(Stream&, std::int64_t, std::int64_t, const __nv_bfloat16*, std::int64_t,
                          const float*, float*, float*);
template void pack(Stream&, const std::vector<PackJob<float, __half>>&);
template void copy_rows(Stream&, const CopyArgs<__half, float>&);
template void copy_rows(Stream&, const CopyArgs<float, __half>&);
template void copy_rows(Stream&, const CopyArgs<__half, __half>&);
template void clean_sequence(Stream&, const CleanArgs<__half>&);
template void add_rows(Stream&, const AddArgs<__half>&);
template void add_columns(Stream&, std::int64_t, std::int64_t, const __half*, std::int64_t,
                          const float*, float*, float*);

}  // namespace sluice::kernels::attention_decoder::cuda
