#include "kernels/pooling/cpu/pooling.h"

#include <cmath>
#include <vector>

#include "base/dtype.h"
#include "kernels/pooling/cpu/sequence.h"

namespace sluice::kernels::pooling::cpu {
namespace {

/// Where feature f of a row of some length ends.
std::int64_t last_step(const ForwardArgs& args, std::int64_t f, std::int64_t length) {
  return f < args.forward_features ? length - 1 : 0;
}

template <typename T>
void last_row(const ForwardArgs& args, const Sequence<const T>& x, std::int64_t row, T* y) {
  const std::int64_t length = x.length(row);
  for (std::int64_t f = 0; f < x.features; ++f) {
    y[f] = length > 0 ? x.at(last_step(args, f, length), row)[f] : T{};
  }
}

template <typename T>
void mean_row(const Sequence<const T>& x, std::int64_t row, T* y) {
  const std::int64_t length = x.length(row);
  std::vector<Wide<T>> sums(static_cast<std::size_t>(x.features));
  for (std::int64_t t = 0; t < length; ++t) {
    const T* values = x.at(t, row);
    for (std::size_t f = 0; f < sums.size(); ++f) sums[f] += static_cast<Wide<T>>(values[f]);
  }
  const auto count = static_cast<Wide<T>>(std::max<std::int64_t>(length, 1));
  for (std::size_t f = 0; f < sums.size(); ++f) y[f] = static_cast<T>(sums[f] / count);
}

template <typename T>
void max_row(const Sequence<const T>& x, std::int64_t row, T* y, std::int32_t* positions) {
  const std::int64_t length = x.length(row);
  std::fill_n(positions, x.features, length > 0 ? 0 : -1);
  if (length == 0) return static_cast<void>(std::fill_n(y, x.features, T{}));
  std::copy_n(x.at(0, row), x.features, y);
  for (std::int64_t t = 1; t < length; ++t) {
    const T* values = x.at(t, row);
    for (std::int64_t f = 0; f < x.features; ++f) {
      const auto value = static_cast<Wide<T>>(values[f]), largest = static_cast<Wide<T>>(y[f]);
      if (value > largest || (std::isnan(value) && !std::isnan(largest))) {
        y[f] = values[f];
        positions[f] = static_cast<std::int32_t>(t);
      }
    }
  }
}

template <typename T>
void run_forward(const ForwardArgs& args) {
  const Sequence<const T> x(args.x, args.lengths);
  auto* y = args.y.data_as<T>();
  auto* positions = args.positions.data_as<std::int32_t>();
#pragma omp parallel for schedule(static) if (x.elements() > kWorthThreads)
  for (std::int64_t row = 0; row < x.rows; ++row) {
    T* own = y + row * x.features;
    if (args.kind == Kind::kLast) {
      last_row(args, x, row, own);
    } else if (args.kind == Kind::kMean) {
      mean_row(x, row, own);
    } else {
      max_row(x, row, own, positions + row * x.features);
    }
  }
}

template <typename T>
void mean_gradient(const Sequence<T>& dx, std::int64_t row, const T* dy) {
  const std::int64_t length = dx.length(row);
  const auto count = static_cast<Wide<T>>(std::max<std::int64_t>(length, 1));
  for (std::int64_t t = 0; t < length; ++t) {
    T* gradient = dx.at(t, row);
    for (std::int64_t f = 0; f < dx.features; ++f) {
      gradient[f] = static_cast<T>(static_cast<Wide<T>>(dy[f]) / count);
    }
  }
  dx.zero_from(length, row);
}

template <typename T>
void run_backward(const BackwardArgs& args) {
  const ForwardArgs& forward = args.forward;
  const Sequence<T> dx(args.dx, forward.lengths);
  const auto* dy = args.dy.data_as<const T>();
  const auto* positions = forward.positions.data_as<const std::int32_t>();
#pragma omp parallel for schedule(static) if (dx.elements() > kWorthThreads)
  for (std::int64_t row = 0; row < dx.rows; ++row) {
    const T* own = dy + row * dx.features;
    if (forward.kind == Kind::kMean) {
      mean_gradient(dx, row, own);
      continue;
    }
    // A feature's gradient goes to the one step that it came from.
    dx.zero_from(0, row);
    const std::int64_t length = dx.length(row);
    if (length == 0) continue;
    for (std::int64_t f = 0; f < dx.features; ++f) {
      const std::int64_t t = forward.kind == Kind::kLast ? last_step(forward, f, length)
                                                         : positions[row * dx.features + f];
      dx.at(t, row)[f] = own[f];
    }
  }
}

}  // namespace

void forward(Stream& stream, const ForwardArgs& args) {
  if (args.kind == Kind::kAttention) return attention_forward(stream, args);
  base::dispatch_float(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { run_forward<T>(args); });
  });
}

void backward(Stream& stream, const BackwardArgs& args, const AttentionScratch& scratch) {
  if (args.forward.kind == Kind::kAttention) return attention_backward(stream, args, scratch);
  base::dispatch_float(args.dx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { run_backward<T>(args); });
  });
}

}  // namespace sluice::kernels::pooling::cpu
