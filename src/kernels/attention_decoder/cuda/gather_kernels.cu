#include "kernels/attention_decoder/cuda/attention_kernels.h"
#include "kernels/attention_decoder/cuda/buffers.h"
#include "kernels/attention_decoder/cuda/vectors.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kTile = static_cast<int>(kSourceTile);
/// Of a thread, which loads them at once.
constexpr int kKeyColumns = 2, kMemoryColumns = 4;

/// A block sums over all steps for a row (blockIdx.x), a tile of source positions (blockIdx.y) and
/// kThreads times some columns (blockIdx.z), a few neighbours a thread.
struct Place {
  std::int64_t row, first, column;
  int count;           ///< positions of the tile within the row's source length
  std::int64_t steps;  ///< of this row

  template <typename S>
  __device__ Place(const Attended<S>& a, std::int64_t target_time, int columns)
      : row(blockIdx.x),
        first(std::int64_t{blockIdx.y} * kTile),
        column((std::int64_t{blockIdx.z} * kThreads + threadIdx.x) * columns) {
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

/// Calls body(i) for the positions of a tile, some of which may lie beyond `count`: whole groups
/// of those are left out.
template <typename Body>
__device__ void for_positions(int count, const Body& body) {
  constexpr int kGroup = 4;
#pragma unroll
  for (int first = 0; first < kTile; first += kGroup) {
    if (first >= count) return;
#pragma unroll
    for (int i = first; i < first + kGroup; ++i) body(i);
  }
}

/// What flows into some columns of a tile's keys, but for the score vector's factor, and into the
/// score vector.
template <typename S>
struct KeySums {
  using W = Wide<S>;
  Values<W, kKeyColumns> keys[kTile], of_vector;

  /// Adds up over all steps in place of the keys.
  template <typename Tanh>
  __device__ void run(const KeyGradientArgs<S>& args, const Place& place) {
    const Attended<S>& a = args.attended;
    Values<W, kKeyColumns> terms[kTile];
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
      for (int k = 0; k < kKeyColumns; ++k) {
        terms[i].x[k] = Tanh::prepare(keys[i].x[k]);
        keys[i].x[k] = 0;
      }
    }
#pragma unroll 2
    for (std::int64_t t = 0; t < place.steps; ++t) {
      auto query = load<kKeyColumns>(args.query.projected + (t * a.rows + place.row) * a.key_width +
                                     place.column);
      W d_scores[kTile];
      load_weights(args.d_scores, place, t, a.rows, a.source_time, d_scores);
#pragma unroll
      for (int k = 0; k < kKeyColumns; ++k) query.x[k] = Tanh::prepare(query.x[k]);
      for_positions(place.count, [&](int i) {
#pragma unroll
        for (int k = 0; k < kKeyColumns; ++k) {
          const W activation = Tanh::of(terms[i].x[k], query.x[k]);
          of_vector.x[k] += d_scores[i] * activation;
          keys[i].x[k] += d_scores[i] * (W(1) - activation * activation);
        }
      });
    }
  }

  /// Whether no key is too large for factors.
  __device__ bool factors_serve() const {
    bool serve = true;
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
      for (int k = 0; k < kKeyColumns; ++k) serve &= !(abs(keys[i].x[k]) > FactoredTanh::kMostKey);
    }
    return serve;
  }
};

template <typename S>
__global__ void __launch_bounds__(kThreads) additive_keys_kernel(KeyGradientArgs<S> args) {
  using W = Wide<S>;
  const Attended<S>& a = args.attended;
  const Place place(a, args.target_time, kKeyColumns);
  if (place.column >= a.key_width) return;
  const std::int64_t entry = place.row * a.source_time + place.first;
  KeySums<S> sums;
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
    if (i < place.count) {
      sums.keys[i] = load<kKeyColumns>(a.keys + (entry + i) * a.key_width + place.column);
    }
  }
  if constexpr (sizeof(S) == 2) {
    if (sums.factors_serve()) {
      sums.template run<FactoredTanh>(args, place);
    } else {
      sums.template run<SumTanh<S>>(args, place);
    }
  } else {
    sums.template run<SumTanh<S>>(args, place);
  }
  const auto factor = load<kKeyColumns>(a.score_vector + place.column);
  const int positions = place.positions(a);
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
    if (i >= positions) break;
    Values<W, kKeyColumns> d_key;
#pragma unroll
    for (int k = 0; k < kKeyColumns; ++k) {
      d_key.x[k] = within(sums.keys[i].x[k] * factor.x[k], args.limit);
    }
    store(args.d_keys + (entry + i) * a.key_width + place.column, d_key);
  }
  store(args.d_vector + (place.row * gridDim.y + blockIdx.y) * a.key_width + place.column,
        sums.of_vector);
}

/// sums[i] = sum over steps of weights[t, row, i] * x[t, row, column...].
template <typename X, typename W, int kColumns>
__device__ void sum_steps(const Place& place, const W* weights, std::int64_t rows,
                          std::int64_t source_time, const X* x, std::int64_t x_stride,
                          Values<W, kColumns> (&sums)[kTile]) {
#pragma unroll 2
  for (std::int64_t t = 0; t < place.steps; ++t) {
    const auto value = load<kColumns>(x + (t * rows + place.row) * x_stride + place.column);
    W factors[kTile];
    load_weights(weights, place, t, rows, source_time, factors);
    for_positions(place.count, [&](int i) {
#pragma unroll
      for (int k = 0; k < kColumns; ++k) sums[i].x[k] += factors[i] * value.x[k];
    });
  }
}

template <typename S>
__global__ void __launch_bounds__(kThreads) multiplicative_keys_kernel(KeyGradientArgs<S> args) {
  using W = Wide<S>;
  const Attended<S>& a = args.attended;
  const Place place(a, args.target_time, kKeyColumns);
  if (place.column >= a.key_width) return;
  Values<W, kKeyColumns> sums[kTile];
  sum_steps(place, args.d_scores, a.rows, a.source_time, args.query.state, args.query.stride, sums);
  const std::int64_t entry = place.row * a.source_time + place.first;
  const int positions = place.positions(a);
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
    if (i >= positions) break;
#pragma unroll
    for (int k = 0; k < kKeyColumns; ++k) sums[i].x[k] = within(sums[i].x[k], args.limit);
    store(args.d_keys + (entry + i) * a.key_width + place.column, sums[i]);
  }
}

/// Rows of d_memory are the caller's, which begin anywhere if they are not `aligned`.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    memory_kernel(MemoryGradientArgs<S> args, bool aligned) {
  using W = Wide<S>;
  const Attended<S>& a = args.attended;
  const Place place(a, args.target_time, kMemoryColumns);
  if (place.column >= args.memory) return;
  Values<W, kMemoryColumns> sums[kTile];
  sum_steps(place, args.alpha, a.rows, a.source_time, args.d_context, args.d_context_stride, sums);
  const int positions = place.positions(a);
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
    if (i >= positions) break;
    const std::int64_t s = place.first + i;
    Values<W, kMemoryColumns> gradient;
    if (i < place.count) {
      gradient = load<kMemoryColumns>(
          args.through_keys + (place.row * a.source_time + s) * a.value_width + place.column);
#pragma unroll
      for (int k = 0; k < kMemoryColumns; ++k) gradient.x[k] += sums[i].x[k];
    }
    S* const to = args.d_memory + (s * a.rows + place.row) * args.memory + place.column;
    if (aligned) {
      store(to, gradient);
      continue;
    }
#pragma unroll
    for (int k = 0; k < kMemoryColumns; ++k) {
      if (place.column + k < args.memory) to[k] = static_cast<S>(gradient.x[k]);
    }
  }
}

template <typename S>
dim3 grid_of(const Attended<S>& a, std::int64_t width, std::int64_t columns) {
  const std::int64_t of_block = kThreads * columns;
  return {static_cast<unsigned>(a.rows), static_cast<unsigned>(source_tiles(a.source_time)),
          static_cast<unsigned>((width + of_block - 1) / of_block)};
}

}  // namespace

template <typename S>
void gather_key_gradients(Stream& stream, const KeyGradientArgs<S>& args) {
  const auto kernel = args.attended.score_vector != nullptr ? additive_keys_kernel<S>
                                                            : multiplicative_keys_kernel<S>;
  runtime::cuda::launch(stream, "gather the keys' gradients", kernel,
                        grid_of(args.attended, args.attended.key_width, kKeyColumns), kThreads, 0,
                        args);
}

template <typename S>
void gather_memory_gradients(Stream& stream, const MemoryGradientArgs<S>& args) {
  const bool aligned = args.memory % kMemoryColumns == 0 &&
                       reinterpret_cast<std::uintptr_t>(args.d_memory) % kWidestBytes == 0;
  runtime::cuda::launch(stream, "gather the memory's gradient", memory_kernel<S>,
                        grid_of(args.attended, args.memory, kMemoryColumns), kThreads, 0, args,
                        aligned);
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
