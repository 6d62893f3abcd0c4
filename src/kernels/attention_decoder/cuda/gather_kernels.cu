#include "kernels/attention_decoder/cuda/attention_kernels.h"
#include "kernels/attention_decoder/cuda/buffers.h"
#include "kernels/attention_decoder/cuda/vectors.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kTile = static_cast<int>(kSourceTile);

/// A block sums over all steps for a row (blockIdx.x), a tile of source positions (blockIdx.y) and
/// kThreads columns (blockIdx.z), a column a thread.
struct Place {
  std::int64_t row, first, column;
  int count;           ///< positions of the tile within the row's source length
  std::int64_t steps;  ///< of this row

  template <typename S>
  __device__ Place(const Attended<S>& a, std::int64_t target_time)
      : row(blockIdx.x),
        first(std::int64_t{blockIdx.y} * kTile),
        column(std::int64_t{blockIdx.z} * kThreads + threadIdx.x) {
    const std::int64_t length = a.source_lengths == nullptr ? a.source_time : a.source_lengths[row];
    const std::int64_t left = length - first;
    count = static_cast<int>(left < 0 ? 0 : (left > kTile ? kTile : left));
    steps = a.target_lengths == nullptr ? target_time : a.target_lengths[row];
  }
  /// Positions of the tile that exist at all.
  template <typename S>
  __device__ int positions(const Attended<S>& a) const {
    const std::int64_t left = a.source_time - first;
    return static_cast<int>(left > kTile ? kTile : left);
  }
};

/// weights[t, row, first...]: those of a tile at a step, 0 beyond `count`.
template <typename W>
__device__ void load_weights(const W* weights, const Place& place, std::int64_t t,
                             std::int64_t rows, std::int64_t source_time, W (&out)[kTile]) {
  const W* source = weights + (t * rows + place.row) * source_time + place.first;
#pragma unroll
  for (int i = 0; i < kTile; ++i) out[i] = i < place.count ? source[i] : W(0);
}

template <typename S>
__global__ void __launch_bounds__(kThreads) additive_keys_kernel(KeyGradientArgs<S> args) {
  using W = Wide<S>;
  const Attended<S>& a = args.attended;
  const Place place(a, args.target_time);
  if (place.column >= a.key_width) return;
  const std::int64_t entry = place.row * a.source_time + place.first;
  W keys[kTile], sums[kTile] = {}, d_vector = 0;
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
    keys[i] =
        i < place.count ? static_cast<W>(a.keys[(entry + i) * a.key_width + place.column]) : W(0);
  }
  for (std::int64_t t = 0; t < place.steps && place.count > 0; ++t) {
    const W query = args.query.projected[(t * a.rows + place.row) * a.key_width + place.column];
    W d_scores[kTile];
    load_weights(args.d_scores, place, t, a.rows, a.source_time, d_scores);
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
      const W activation = Activation<S>::tanh(keys[i] + query);
      d_vector += d_scores[i] * activation;
      sums[i] += d_scores[i] * (W(1) - activation * activation);
    }
  }
  const W factor = a.score_vector[place.column];
  const int positions = place.positions(a);
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
    if (i >= positions) break;
    args.d_keys[(entry + i) * a.key_width + place.column] =
        static_cast<S>(within(sums[i] * factor, args.limit));
  }
  args.d_vector[(place.row * gridDim.y + blockIdx.y) * a.key_width + place.column] = d_vector;
}

/// sums[i] = sum over steps of weights[t, row, i] * x[t, row, column].
template <typename X, typename W>
__device__ void sum_steps(const Place& place, const W* weights, std::int64_t rows,
                          std::int64_t source_time, const X* x, std::int64_t x_stride,
                          W (&sums)[kTile]) {
  for (std::int64_t t = 0; t < place.steps && place.count > 0; ++t) {
    const W value = static_cast<W>(x[(t * rows + place.row) * x_stride + place.column]);
    W factors[kTile];
    load_weights(weights, place, t, rows, source_time, factors);
#pragma unroll
    for (int i = 0; i < kTile; ++i) sums[i] += factors[i] * value;
  }
}

template <typename S>
__global__ void __launch_bounds__(kThreads) multiplicative_keys_kernel(KeyGradientArgs<S> args) {
  using W = Wide<S>;
  const Attended<S>& a = args.attended;
  const Place place(a, args.target_time);
  if (place.column >= a.key_width) return;
  W sums[kTile] = {};
  sum_steps(place, args.d_scores, a.rows, a.source_time, args.query.state, args.query.stride, sums);
  const std::int64_t entry = place.row * a.source_time + place.first;
  const int positions = place.positions(a);
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
    if (i >= positions) break;
    args.d_keys[(entry + i) * a.key_width + place.column] =
        static_cast<S>(within(sums[i], args.limit));
  }
}

template <typename S>
__global__ void __launch_bounds__(kThreads) memory_kernel(MemoryGradientArgs<S> args) {
  using W = Wide<S>;
  const Attended<S>& a = args.attended;
  const Place place(a, args.target_time);
  if (place.column >= args.memory) return;
  W sums[kTile] = {};
  sum_steps(place, args.alpha, a.rows, a.source_time, args.d_context, args.d_context_stride, sums);
  const int positions = place.positions(a);
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
    if (i >= positions) break;
    const std::int64_t s = place.first + i;
    const W through_keys =
        args.through_keys[(place.row * a.source_time + s) * a.value_width + place.column];
    args.d_memory[(s * a.rows + place.row) * args.memory + place.column] =
        static_cast<S>(i < place.count ? sums[i] + through_keys : W(0));
  }
}

template <typename S>
dim3 grid_of(const Attended<S>& a, std::int64_t width) {
  return {static_cast<unsigned>(a.rows), static_cast<unsigned>(source_tiles(a.source_time)),
          static_cast<unsigned>((width + kThreads - 1) / kThreads)};
}

}  // namespace

template <typename S>
void gather_key_gradients(Stream& stream, const KeyGradientArgs<S>& args) {
  const auto kernel = args.attended.score_vector != nullptr ? additive_keys_kernel<S>
                                                            : multiplicative_keys_kernel<S>;
  runtime::cuda::launch(stream, "gather the keys' gradients", kernel,
                        grid_of(args.attended, args.attended.key_width), kThreads, 0, args);
}

template <typename S>
void gather_memory_gradients(Stream& stream, const MemoryGradientArgs<S>& args) {
  runtime::cuda::launch(stream, "gather the memory's gradient", memory_kernel<S>,
                        grid_of(args.attended, args.memory), kThreads, 0, args);
}

template void gather_key_gradients(Stream&, const KeyGradientArgs<double>&);
template void gather_memory_gradients(Stream&, const MemoryGradientArgs<double>&);
template void gather_key_gradients(Stream&, const KeyGradientArgs<float>&);
template void gather_memory_gradients(Stream&, const MemoryGradientArgs<float>&);
template void gather_key_gradients(Stream&, const KeyGradientArgs<__nv_bfloat16>&);
template void gather_memory_gradients(Stream&, const MemoryGradientArgs<__nv_bfloat16>&);
template void gather_key_gradients(Stream&, const KeyGradientArgs<__half>&);
template void gather_memory_gradients(Stream&, const MemoryGradientArgs<__half>&);

}  // namespace sluice::kernels::attention_decoder::cuda
