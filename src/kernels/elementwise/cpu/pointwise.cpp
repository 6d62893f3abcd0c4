#include "base/dtype.h"
#include "kernels/elementwise/cpu/elementwise.h"
#include "kernels/elementwise/cpu/parallel.h"
#include "kernels/elementwise/cpu/tanh_loops.h"
#include "runtime/launch.h"

namespace sluice::kernels::elementwise::cpu {
namespace {

using base::DType;

template <typename T>
void fill_with(Stream& stream, const Tensor& x, T value) {
  stream.launch([x = x.data_as<T>(), count = x.element_count(), value] {
    parallel_chunks(count, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) x[i] = value;
    });
  });
}

template <typename From, typename To>
To converted(From value) {
  if constexpr (std::is_same_v<From, To>) {
    return value;
  } else {
    return static_cast<To>(static_cast<float>(value));
  }
}

void tanh_chunk(const double* x, double* y, std::int64_t count) { tanh_portable(x, y, count); }

void tanh_chunk(const float* x, float* y, std::int64_t count) {
  if (__builtin_cpu_supports("avx512f")) return tanh_avx512(x, y, count);
  if (__builtin_cpu_supports("avx2")) return tanh_avx2(x, y, count);
  tanh_portable(x, y, count);
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
    stream.launch([x = x.data_as<T>(), count = x.element_count(), factor = static_cast<T>(factor)] {
      parallel_chunks(count, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) x[i] *= factor;
      });
    });
  });
}

void accumulate(Stream& stream, double factor, const Tensor& x, const Tensor& y) {
  base::dispatch_master(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([x = x.data_as<const T>(), y = y.data_as<T>(), count = x.element_count(),
                   factor = static_cast<T>(factor)] {
      parallel_chunks(count, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) y[i] += factor * x[i];
      });
    });
  });
}

void convert(Stream& stream, std::span<const Conversion> conversions) {
  for (const auto& [source, target] : conversions) {
    base::dispatch_float(source.dtype(), [&](auto from_tag) {
      base::dispatch_float(target.dtype(), [&](auto to_tag) {
        using From = typename decltype(from_tag)::type;
        using To = typename decltype(to_tag)::type;
        runtime::launch(stream, [from = source.data_as<const From>(), to = target.data_as<To>(),
                                 count = source.element_count()] {
          parallel_chunks(count, [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) to[i] = converted<From, To>(from[i]);
          });
        });
      });
    });
  }
}

void tanh_forward(Stream& stream, const Tensor& x, const Tensor& y) {
  base::dispatch_master(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([x = x.data_as<const T>(), y = y.data_as<T>(), count = x.element_count()] {
      parallel_chunks(count, [=](std::int64_t begin, std::int64_t end) {
        tanh_chunk(x + begin, y + begin, end - begin);
      });
    });
  });
}

void tanh_backward(Stream& stream, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  base::dispatch_master(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([y = y.data_as<const T>(), dy = dy.data_as<const T>(), dx = dx.data_as<T>(),
                   count = y.element_count()] {
      parallel_chunks(count, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) dx[i] = dy[i] * (T{1} - y[i] * y[i]);
      });
    });
  });
}

}  // namespace sluice::kernels::elementwise::cpu
