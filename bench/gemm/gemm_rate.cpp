#include "bench/gemm/gemm_rate.h"

#include "bench/gemm/library.h"
#include "bench/host_numbers.h"
#include "bench/statistics.h"
#include "runtime/buffer.h"

namespace sluice::bench::gemm {
namespace {

using runtime::Buffer;
using runtime::Context;
using runtime::Tensor;

// Large enough that more changes nothing, small enough to be done in a second.
constexpr std::int64_t kGpuSize = 8192;
constexpr std::int64_t kHostSize = 2048;
constexpr std::int64_t kDrawnRows = 64;  // which repeat: the rate does not depend on it
constexpr int kWarmUp = 2, kRepeats = 5;

Tensor square(const Buffer& memory, base::DType dtype, std::int64_t size) {
  return memory.tensor(dtype, {size, size});
}

Buffer drawn(const Context& context, base::DType dtype, std::int64_t size) {
  const auto count = static_cast<std::size_t>(size * size);
  Buffer memory(context.device(), count * base::size_of(dtype));
  Random random(1);
  const std::vector<double> rows = draw(random, kDrawnRows * size, 1, dtype);
  for (std::int64_t row = 0; row < size; row += kDrawnRows) {
    upload(context, square(memory, dtype, size).slice(0, row, row + kDrawnRows), rows);
  }
  return memory;
}

const Library& library_for(const runtime::Device& device, const Libraries& libraries) {
  const std::string_view name = device.runs_host_kernels() ? "onednn" : "sluice";
  for (const Library& library : libraries.found) {
    if (library.name == name) return library;
  }
  base::fail(ErrorCode::kInternal, "{} has no {}", device.name(), name);
}

}  // namespace

std::optional<GemmRate> measure_gemm_rate(const Context& context) {
  if (context.precision().int8) return std::nullopt;  // products have no such dtype
  const runtime::Device& device = context.device();
  const base::DType dtype = context.precision().storage;
  const std::int64_t size = device.runs_host_kernels() ? kHostSize : kGpuSize;
  const Product product{"", Kind::kInput, size, size, size, dtype, context.tf32(), device.name()};
  const Libraries libraries = libraries_for(device);
  Multiply multiply;
  try {
    multiply = library_for(device, libraries).prepare(product);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return std::nullopt;
  }
  const base::DType sums = base::policy_of(dtype).accumulate;
  const Buffer a = drawn(context, dtype, size), b = drawn(context, dtype, size);
  const Buffer c(context.device(), static_cast<std::size_t>(size * size) * base::size_of(sums));
  kernels::matmul::MatmulArgs args;
  args.transpose_b = product.transpose_b();
  args.a = square(a, dtype, size);
  args.b = square(b, dtype, size);
  args.c = square(c, sums, size);
  std::vector<double> times;
  for (int run = 0; run < kWarmUp + kRepeats; ++run) {
    const double time = context.stream().milliseconds_of([&] { multiply(context, args); });
    if (run >= kWarmUp) times.push_back(time);
  }
  return GemmRate{size, product.flops() / median(times) * 1e-6};
}

}  // namespace sluice::bench::gemm
