#include <cmath>
#include <limits>
#include <vector>

#include "base/dtype.h"
#include "kernels/pooling/cpu/pooling.h"
#include "kernels/pooling/cpu/sequence.h"

namespace sluice::kernels::pooling::cpu {
namespace {

template <typename T>
Wide<T> dot(const T* a, const Wide<T>* b, std::int64_t count) {
  Wide<T> sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<Wide<T>>(a[i]) * b[i];
  return sum;
}

/// The shares of a row's steps, a number every `stride` elements.
template <typename T>
void attend(const Sequence<const T>& x, std::int64_t row, const Wide<T>* query, Wide<T>* weights) {
  const std::int64_t length = x.length(row);
  auto largest = -std::numeric_limits<Wide<T>>::infinity();
  for (std::int64_t t = 0; t < length; ++t) {
    weights[t * x.rows] = dot(x.at(t, row), query, x.features);
    largest = std::max(largest, weights[t * x.rows]);
  }
  Wide<T> sum = 0;
  for (std::int64_t t = 0; t < length; ++t) {
    weights[t * x.rows] = std::exp(weights[t * x.rows] - largest);
    sum += weights[t * x.rows];
  }
  for (std::int64_t t = 0; t < length; ++t) weights[t * x.rows] /= sum;
  for (std::int64_t t = length; t < x.time; ++t) weights[t * x.rows] = 0;
}

template <typename T>
void forward_row(const Sequence<const T>& x, std::int64_t row, const Wide<T>* query,
                 Wide<T>* weights, T* y) {
  attend(x, row, query, weights);
  std::vector<Wide<T>> sums(static_cast<std::size_t>(x.features));
  for (std::int64_t t = 0; t < x.length(row); ++t) {
    const T* values = x.at(t, row);
    const Wide<T> weight = weights[t * x.rows];
    for (std::size_t f = 0; f < sums.size(); ++f) {
      sums[f] += weight * static_cast<Wide<T>>(values[f]);
    }
  }
  for (std::size_t f = 0; f < sums.size(); ++f) y[f] = static_cast<T>(sums[f]);
}

template <typename T>
struct RowGradient {
  const Wide<T>* query;
  const Wide<T>* weights;  ///< of the row's steps, as in attend
  Wide<T>* d_scores;       ///< the same
  const T* dy;
  Wide<T>* query_share;
};

template <typename T>
void backward_row(const Sequence<const T>& x, const Sequence<T>& dx, std::int64_t row,
                  const RowGradient<T>& g) {
  const std::int64_t length = x.length(row);
  const std::vector<Wide<T>> dy(g.dy, g.dy + x.features);
  Wide<T> mean = 0;
  for (std::int64_t t = 0; t < length; ++t) {
    g.d_scores[t * x.rows] = dot(x.at(t, row), dy.data(), x.features);
    mean += g.weights[t * x.rows] * g.d_scores[t * x.rows];
  }
  std::fill_n(g.query_share, x.features, Wide<T>{0});
  for (std::int64_t t = 0; t < length; ++t) {
    const Wide<T> weight = g.weights[t * x.rows];
    const Wide<T> d_score = weight * (g.d_scores[t * x.rows] - mean);
    const T* values = x.at(t, row);
    T* gradient = dx.at(t, row);
    for (std::int64_t f = 0; f < x.features; ++f) {
      gradient[f] = static_cast<T>(weight * dy[static_cast<std::size_t>(f)] + d_score * g.query[f]);
      g.query_share[f] += d_score * static_cast<Wide<T>>(values[f]);
    }
  }
  dx.zero_from(length, row);
}

template <typename T>
void run_forward(const ForwardArgs& args) {
  const Sequence<const T> x(args.x, args.lengths);
  const auto* query = args.query.data_as<const Wide<T>>();
  auto* weights = args.weights.data_as<Wide<T>>();
  auto* y = args.y.data_as<T>();
#pragma omp parallel for schedule(static) if (x.elements() > kWorthThreads)
  for (std::int64_t row = 0; row < x.rows; ++row) {
    forward_row(x, row, query, weights + row, y + row * x.features);
  }
}

template <typename T>
void run_backward(const BackwardArgs& args, const AttentionScratch& scratch) {
  const Sequence<const T> x(args.forward.x, args.forward.lengths);
  const Sequence<T> dx(args.dx, args.forward.lengths);
#pragma omp parallel for schedule(static) if (x.elements() > kWorthThreads)
  for (std::int64_t row = 0; row < x.rows; ++row) {
    backward_row(
        x, dx, row,
        {args.forward.query.data_as<const Wide<T>>(),
         args.forward.weights.data_as<const Wide<T>>() + row,
         scratch.d_scores.data_as<Wide<T>>() + row, args.dy.data_as<const T>() + row * x.features,
         scratch.query_shares.data_as<Wide<T>>() + row * x.features});
  }
}

}  // namespace

void attention_forward(Stream& stream, const ForwardArgs& args) {
  base::dispatch_float(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { run_forward<T>(args); });
  });
}

void attention_backward(Stream& stream, const BackwardArgs& args, const AttentionScratch& scratch) {
  base::dispatch_float(args.dx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args, scratch] { run_backward<T>(args, scratch); });
  });
}

}  // namespace sluice::kernels::pooling::cpu
