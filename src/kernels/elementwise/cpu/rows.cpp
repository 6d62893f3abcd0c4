#include <algorithm>
#include <cstring>

#include "base/dtype.h"
#include "kernels/elementwise/cpu/elementwise.h"
#include "kernels/elementwise/cpu/parallel.h"

namespace sluice::kernels::elementwise::cpu {
namespace {

/// A matrix by plain numbers.
template <typename T>
struct Rows {
  T* data;
  std::int64_t count, columns, stride;

  explicit Rows(const Tensor& tensor)
      : data(tensor.data_as<T>()),
        count(tensor.size(0)),
        columns(tensor.size(1)),
        stride(tensor.stride(0)) {}
  T* operator[](std::int64_t row) const { return data + row * stride; }
};

/// Columns that one thread sums side by side: 4 cache lines of float32.
constexpr std::int64_t kColumnBlock = 64;

template <typename X, typename T>
void sum_columns(const Rows<const X>& x, std::int64_t begin, std::int64_t end, T* sums,
                 bool accumulate, const float* factor) {
  double block[kColumnBlock] = {};
  const std::int64_t width = end - begin;
  for (std::int64_t row = 0; row < x.count; ++row) {
    const X* values = x[row] + begin;
    for (std::int64_t j = 0; j < width; ++j) {
      block[j] += static_cast<double>(static_cast<T>(values[j]));
    }
  }
  for (std::int64_t j = 0; j < width; ++j) {
    const T sum = static_cast<T>(factor != nullptr ? block[j] * *factor : block[j]);
    sums[begin + j] = accumulate ? sums[begin + j] + sum : sum;
  }
}

/// Copies between the parts and the whole, row by row; elements are moved, never interpreted.
void move_parts(const std::vector<Tensor>& parts, const Tensor& whole, bool to_whole) {
  const auto size = static_cast<std::int64_t>(base::size_of(whole.dtype()));
  const std::int64_t rows = whole.size(0);
#pragma omp parallel for schedule(static) if (rows * whole.size(1) > kChunk)
  for (std::int64_t row = 0; row < rows; ++row) {
    auto* at = static_cast<std::byte*>(whole.data()) + row * whole.stride(0) * size;
    for (const Tensor& part : parts) {
      const std::int64_t bytes = part.size(1) * size;
      if (bytes == 0) continue;
      auto* own = static_cast<std::byte*>(part.data()) + row * part.stride(0) * size;
      if (to_whole) {
        std::memcpy(at, own, static_cast<std::size_t>(bytes));
      } else {
        std::memcpy(own, at, static_cast<std::size_t>(bytes));
      }
      at += bytes;
    }
  }
}

}  // namespace

void add_bias(Stream& stream, const Tensor& bias, const Tensor& x) {
  base::dispatch_master(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([bias = bias.data_as<const T>(), x = Rows<T>(x)] {
#pragma omp parallel for schedule(static) if (x.count * x.columns > kChunk)
      for (std::int64_t row = 0; row < x.count; ++row) {
        T* values = x[row];
        for (std::int64_t j = 0; j < x.columns; ++j) values[j] += bias[j];
      }
    });
  });
}

void column_sums(Stream& stream, const Tensor& x, const Tensor& sums, bool accumulate,
                 const Tensor& factor) {
  base::dispatch_float(x.dtype(), [&](auto tag) {
    using X = typename decltype(tag)::type;
    using T = std::conditional_t<std::is_same_v<X, double>, double, float>;
    stream.launch([x = Rows<const X>(x), sums = sums.data_as<T>(), accumulate,
                   times = factor.data_as<const float>()] {
#pragma omp parallel for schedule(static) if (x.count * x.columns > kChunk)
      for (std::int64_t begin = 0; begin < x.columns; begin += kColumnBlock) {
        sum_columns(x, begin, std::min(begin + kColumnBlock, x.columns), sums, accumulate, times);
      }
    });
  });
}

void concatenate(Stream& stream, std::vector<Tensor> parts, const Tensor& whole) {
  stream.launch([parts = std::move(parts), whole] { move_parts(parts, whole, true); });
}

void split(Stream& stream, const Tensor& whole, std::vector<Tensor> parts) {
  stream.launch([parts = std::move(parts), whole] { move_parts(parts, whole, false); });
}

void rearrange(Stream& stream, const Tensor& source, const Tensor& target) {
  stream.launch([source, target] {
    const std::int64_t rows = source.size(1), all = source.size(0) * rows;
    const auto size = static_cast<std::int64_t>(base::size_of(source.dtype()));
    const auto bytes = static_cast<std::size_t>(source.size(2) * size);
    const auto* from = static_cast<const std::byte*>(source.data());
    auto* to = static_cast<std::byte*>(target.data());
    const auto place = [=](const Tensor& tensor, std::int64_t i) {
      return size * (i / rows * tensor.stride(0) + i % rows * tensor.stride(1));
    };
#pragma omp parallel for schedule(static) if (static_cast <std::size_t>(all) * bytes > 65536)
    for (std::int64_t i = 0; i < all; ++i) {
      std::memcpy(to + place(target, i), from + place(source, i), bytes);
    }
  });
}

}  // namespace sluice::kernels::elementwise::cpu
