#pragma once

#include <gtest/gtest.h>
#include <omp.h>
#include <stdlib.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/rng.h"
#include "sluice/error.h"

namespace sluice::testing {

using runtime::DType;
using runtime::Shape;
using runtime::Tensor;

/// The devices that run host functions.
inline auto host_devices() { return ::testing::Values("cpu", "test"); }

/// What suites of tests are instantiated for: those, and "cuda" where the environment variable
/// SLUICE_TEST_DEVICES names it.
inline std::vector<const char*> device_names() {
  std::vector<const char*> names{"cpu", "test"};
  const char* chosen = getenv("SLUICE_TEST_DEVICES");
  if (chosen != nullptr && std::string_view(chosen).find("cuda") != std::string_view::npos) {
    names.push_back("cuda");
  }
  return names;
}
inline auto devices() { return ::testing::ValuesIn(device_names()); }

/// Queues setting all bits of device memory, which makes every floating-point number in it a NaN.
inline void poison(const runtime::Context& context, void* data, std::size_t bytes) {
  if (context.device().runs_host_kernels()) {
    context.stream().launch([=] { std::memset(data, 0xff, bytes); });
  } else {
    const std::vector<unsigned char> ones(bytes, 0xff);
    context.stream().upload(data, ones.data(), bytes);
  }
}

/// A test that runs once on each device it is instantiated for, with memory that lives as long as
/// the test.
class OnDevice : public ::testing::TestWithParam<const char*> {
 protected:
  OnDevice() : device_(runtime::open_device(GetParam())), context_(*device_) {}

  /// Not initialised but for all bits set, which is a NaN: an output must not depend on it.
  Tensor poisoned(DType dtype, const Shape& shape) {
    const std::size_t bytes =
        base::size_of(dtype) * static_cast<std::size_t>(shape.element_count());
    const runtime::Buffer& buffer = buffers_.emplace_back(*device_, bytes);
    poison(context_, buffer.data(), bytes);
    return buffer.tensor(dtype, shape);
  }

  template <typename T>
  Tensor put(const std::vector<T>& values, const Shape& shape) {
    const Tensor tensor = poisoned(base::dtype_of<T>(), shape);
    context_.upload<T>(tensor, values);
    return tensor;
  }
  template <typename T>
  Tensor put(const std::vector<T>& values) {
    return put(values, Shape{static_cast<std::int64_t>(values.size())});
  }

  template <typename T>
  Tensor put_number(T value) {
    return put(std::vector<T>{value});
  }
  /// A source of dropout that gives this key.
  runtime::DropoutSource put_key(const runtime::DropoutKey& key) {
    const Tensor step = put_number(static_cast<std::int32_t>(key.step));
    return {key.seed, step.data_as<const std::int32_t>(), key.stream};
  }

  /// Frees all memory handed out so far. The test device opens and closes every piece of memory
  /// for each kernel, so tests of many cases free one's before the next.
  void release_memory() {
    context_.synchronize();
    buffers_.clear();
  }

  /// OpenMP's thread count belongs to the thread that runs the kernels. Nothing on a GPU.
  void set_threads(int threads) {
    if (!device_->runs_host_kernels()) return;
    context_.stream().launch([=] { omp_set_num_threads(threads); });
  }

  /// Runs a check of float64, and says whether it could be: a GPU's leaf may refuse that type.
  template <typename Check>
  bool try_float64(Check&& check) {
    try {
      check();
    } catch (const Error& error) {
      if (device_->runs_host_kernels() || error.code() != ErrorCode::kUnsupported) throw;
      return false;
    }
    return true;
  }

  template <typename T>
  std::vector<T> get(const Tensor& tensor) const {
    return context_.download<T>(tensor);
  }
  template <typename T>
  T get_scalar(const Tensor& tensor) const {
    return get<T>(tensor).at(0);
  }

  std::unique_ptr<runtime::Device> device_;
  runtime::Context context_;

 private:
  std::vector<runtime::Buffer> buffers_;
};

/// Uniform on [-scale, scale).
template <typename T>
std::vector<T> random_values(std::mt19937_64& engine, std::int64_t count, double scale = 1.0) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& v : values) {
    const double unit = static_cast<double>(engine() >> 11) * 0x1p-52 - 1.0;
    v = static_cast<T>(scale * unit);
  }
  return values;
}

/// The numbers as float64, for a reference.
template <typename T>
std::vector<double> widened(const std::vector<T>& values) {
  std::vector<double> wide;
  wide.reserve(values.size());
  for (const T& v : values) {
    if constexpr (std::is_class_v<T>) {
      wide.push_back(static_cast<float>(v));
    } else {
      wide.push_back(static_cast<double>(v));
    }
  }
  return wide;
}

/// Whether two results are the same to the bit.
template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Names instantiated tests by their device.
inline std::string device_name(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

}  // namespace sluice::testing
