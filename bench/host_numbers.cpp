#include "bench/host_numbers.h"

#include <type_traits>

namespace sluice::bench {

using base::DType;
using runtime::Context;
using runtime::Tensor;

namespace {

constexpr std::int64_t kWorthThreads = 16384;  // elements

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, base::BFloat16> || std::is_same_v<T, base::Float16>;

template <typename T>
T narrow(double value) {
  if constexpr (kIsHalf<T>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
double widen(T value) {
  if constexpr (kIsHalf<T>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

}  // namespace

std::vector<double> draw(Random& random, std::int64_t count, double range, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(count));
  base::dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
#pragma omp parallel for schedule(static) if (count > kWorthThreads)
    for (std::int64_t i = 0; i < count; ++i) {
      values[static_cast<std::size_t>(i)] = widen(narrow<T>(random.ahead(i).uniform(range)));
    }
  });
  random = random.ahead(count);
  return values;
}

void upload(const Context& context, const Tensor& tensor, const std::vector<double>& values) {
  base::dispatch_float(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> converted(values.size());
    const auto count = static_cast<std::int64_t>(values.size());
#pragma omp parallel for schedule(static) if (count > kWorthThreads)
    for (std::int64_t i = 0; i < count; ++i) {
      converted[static_cast<std::size_t>(i)] = narrow<T>(values[static_cast<std::size_t>(i)]);
    }
    context.upload<T>(tensor, converted);
  });
}

std::vector<double> download(const Context& context, const Tensor& tensor) {
  if (!tensor) return {};
  return base::dispatch_float(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto values = context.download<T>(tensor);
    std::vector<double> wide(values.size());
    const std::int64_t count = std::ssize(values);
#pragma omp parallel for schedule(static) if (count > kWorthThreads)
    for (std::int64_t i = 0; i < count; ++i) {
      wide[static_cast<std::size_t>(i)] = widen(values[static_cast<std::size_t>(i)]);
    }
    return wide;
  });
}

void poison(const Context& context, const Tensor& tensor) {
  if (!tensor) return;
  const std::vector<std::byte> ones(tensor.byte_size(), std::byte{0xff});
  context.stream().upload(tensor.data(), ones.data(), ones.size());
}

}  // namespace sluice::bench
