#include "base/dtype.h"
#include "kernels/pooling/cuda/pooling.h"
#include "kernels/pooling/cuda/sequence.h"
#include "runtime/cuda/reduce.h"

namespace sluice::kernels::pooling::cuda {
namespace {

using runtime::cuda::kWarp;
using runtime::cuda::Team;

constexpr int kWarps = kBlock / kWarp;

/// scores[t, r] = x[t, r] . v[r]: a warp a step of a row, 0 past its end. `v` is one vector for all
/// rows where v_stride is 0.
template <typename T, typename V>
__global__ void __launch_bounds__(kBlock)
    scores_kernel(Extent e, const T* x, const V* v, std::int64_t v_stride, Wide<T>* scores) {
  const Team<kWarp> team{static_cast<int>(threadIdx.x % kWarp), nullptr};
  const std::int64_t stride = std::int64_t{gridDim.x} * kWarps;
  for (std::int64_t n = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
       n < e.time * e.rows; n += stride) {
    const std::int64_t row = n % e.rows;
    Wide<T> sum = 0;
    if (n / e.rows < e.length(row)) {
#pragma unroll 4
      for (std::int64_t f = team.rank; f < e.features; f += kWarp) {
        sum += widened(x[n * e.features + f]) * widened(v[row * v_stride + f]);
      }
    }
    sum = team.reduce(sum, runtime::cuda::Add{});
    if (team.rank == 0) scores[n] = sum;
  }
}

/// In place, over the steps of a row: a block a row.
template <typename W>
__global__ void __launch_bounds__(kBlock) softmax_kernel(Extent e, W* scores) {
  __shared__ double scratch[kWarps];
  const Team<kBlock> team{static_cast<int>(threadIdx.x), scratch};
  const std::int64_t row = blockIdx.x, length = e.length(row);
  W largest = -static_cast<W>(INFINITY);
  for (std::int64_t t = team.rank; t < length; t += kBlock) {
    const W score = scores[t * e.rows + row];
    largest = score > largest ? score : largest;
  }
  largest = team.reduce(largest, runtime::cuda::Larger{});
  W sum = 0;
  for (std::int64_t t = team.rank; t < length; t += kBlock) {
    const W power = ::exp(scores[t * e.rows + row] - largest);
    scores[t * e.rows + row] = power;
    sum += power;
  }
  sum = team.reduce(sum, runtime::cuda::Add{});
  for (std::int64_t t = team.rank; t < length; t += kBlock) scores[t * e.rows + row] /= sum;
}

/// The gradient of a softmax, in place: d = w * (d - sum of w * d). A block a row.
template <typename W>
__global__ void __launch_bounds__(kBlock)
    softmax_backward_kernel(Extent e, const W* weights, W* d_scores) {
  __shared__ double scratch[kWarps];
  const Team<kBlock> team{static_cast<int>(threadIdx.x), scratch};
  const std::int64_t row = blockIdx.x, length = e.length(row);
  W mean = 0;
  for (std::int64_t t = team.rank; t < length; t += kBlock) {
    mean += weights[t * e.rows + row] * d_scores[t * e.rows + row];
  }
  mean = team.reduce(mean, runtime::cuda::Add{});
  for (std::int64_t t = team.rank; t < length; t += kBlock) {
    W& d = d_scores[t * e.rows + row];
    d = weights[t * e.rows + row] * (d - mean);
  }
}

// In these two a thread has one feature of one row, i = row * features + f.

template <typename T>
__global__ void __launch_bounds__(kBlock)
    weighted_mean_kernel(Extent e, const T* x, const Wide<T>* weights, T* y) {
  for (std::int64_t i = first_of_grid(); i < e.step(); i += grid_stride()) {
    const std::int64_t row = i / e.features, length = e.length(row);
    Wide<T> sum = 0;
#pragma unroll 8
    for (std::int64_t t = 0; t < length; ++t) {
      sum += weights[t * e.rows + row] * widened(x[t * e.step() + i]);
    }
    y[i] = narrowed<T>(sum);
  }
}

template <typename T>
struct Gradients {
  const T* x;
  const T* dy;
  const Wide<T>* query;
  const Wide<T>* weights;
  const Wide<T>* d_scores;
  T* dx;
  Wide<T>* query_shares;
};

template <typename T>
__global__ void __launch_bounds__(kBlock) gradients_kernel(Extent e, Gradients<T> g) {
  for (std::int64_t i = first_of_grid(); i < e.step(); i += grid_stride()) {
    const std::int64_t row = i / e.features, length = e.length(row);
    const Wide<T> dy = widened(g.dy[i]), query = g.query[i % e.features];
    Wide<T> share = 0;
#pragma unroll 4
    for (std::int64_t t = 0; t < length; ++t) {
      const Wide<T> d_score = g.d_scores[t * e.rows + row];
      share += d_score * widened(g.x[t * e.step() + i]);
      g.dx[t * e.step() + i] = narrowed<T>(g.weights[t * e.rows + row] * dy + d_score * query);
    }
    for (std::int64_t t = length; t < e.time; ++t) g.dx[t * e.step() + i] = narrowed<T>(0);
    g.query_shares[i] = share;
  }
}

unsigned blocks_of_steps(const Extent& e) {
  return runtime::cuda::blocks_for(e.time * e.rows, kWarps);
}

}  // namespace

void attention_forward(Stream& stream, const ForwardArgs& args) {
  base::dispatch_float(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Extent e(args.x, args.lengths);
    const auto* x = args.x.data_as<const T>();
    auto* weights = args.weights.data_as<Wide<T>>();
    runtime::cuda::launch(stream, "score the steps of sequences", scores_kernel<T, Wide<T>>,
                          blocks_of_steps(e), kBlock, 0, e, x, args.query.data_as<const Wide<T>>(),
                          0, weights);
    runtime::cuda::launch(stream, "weigh the steps of sequences", softmax_kernel<Wide<T>>,
                          static_cast<unsigned>(e.rows), kBlock, 0, e, weights);
    runtime::cuda::launch(stream, "take weighted means over time", weighted_mean_kernel<T>,
                          runtime::cuda::blocks_for(e.step(), kBlock), kBlock, 0, e, x, weights,
                          args.y.data_as<T>());
  });
}

void attention_backward(Stream& stream, const BackwardArgs& args, const AttentionScratch& scratch) {
  const ForwardArgs& forward = args.forward;
  base::dispatch_float(args.dx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Extent e(forward.x, forward.lengths);
    const auto* x = forward.x.data_as<const T>();
    const auto* dy = args.dy.data_as<const T>();
    const auto* weights = forward.weights.data_as<const Wide<T>>();
    auto* d_scores = scratch.d_scores.data_as<Wide<T>>();
    runtime::cuda::launch(stream, "take gradients of weights", scores_kernel<T, T>,
                          blocks_of_steps(e), kBlock, 0, e, x, dy, e.features, d_scores);
    runtime::cuda::launch(stream, "take gradients of scores", softmax_backward_kernel<Wide<T>>,
                          static_cast<unsigned>(e.rows), kBlock, 0, e, weights, d_scores);
    const Gradients<T> g{x,
                         dy,
                         forward.query.data_as<const Wide<T>>(),
                         weights,
                         d_scores,
                         args.dx.data_as<T>(),
                         scratch.query_shares.data_as<Wide<T>>()};
    runtime::cuda::launch(stream, "take gradients of sequences", gradients_kernel<T>,
                          runtime::cuda::blocks_for(e.step(), kBlock), kBlock, 0, e, g);
  });
}

}  // namespace sluice::kernels::pooling::cuda
