#include "kernels/matmul/quantized.h"

#include <omp.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/check.h"
#include "kernels/matmul/cpu/i8_leaf.h"

namespace sluice::kernels::matmul {
namespace {

using base::DType;

/// A thread more costs some microseconds.
constexpr std::int64_t kProductsOfAThread = 1 << 19;

void require_host(const Context& context) {
  if (context.device().runs_host_kernels()) return;
  base::fail(ErrorCode::kUnsupported, "8-bit products run on the CPU, not on {}",
             context.device().name());
}

void check_packed(const Tensor& packed, std::int64_t n, std::int64_t k) {
  const auto bytes = static_cast<std::int64_t>(quantized_bytes(n, k));
  SLUICE_CHECK(packed && packed.dtype() == DType::kUInt8 && packed.shape() == base::Shape{bytes} &&
                   packed.is_contiguous(),
               "packed weights [{}, {}] must be {} bytes of uint8", n, k, bytes);
}

void check_float32(const Tensor& matrix, const char* name) {
  check_matrix(matrix, "quantized matmul", name);
  SLUICE_CHECK(matrix.dtype() == DType::kFloat32, "quantized matmul: {} must be float32, not {}",
               name, base::name_of(matrix.dtype()));
}

int threads_for(std::int64_t products) {
  return static_cast<int>(
      std::clamp<std::int64_t>(products / kProductsOfAThread, 1, omp_get_max_threads()));
}

/// Part `index` of `count`.
std::int64_t bound(std::int64_t size, std::int64_t index, std::int64_t count) {
  return size * index / count;
}

void run(const QuantizedArgs& args) {
  const std::int64_t m = args.c.size(0), n = args.c.size(1), k = args.a.size(1);
  if (m == 0 || n == 0) return;
  const cpu::I8Leaf& leaf = cpu::best_i8_leaf();
  const std::int64_t panels = cpu::i8_panels(n);
  const int threads = threads_for(m * n * k);
  // Whoever multiplies some panels brings all rows to integers for himself.
  const bool by_panels = panels >= 4 * threads;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int part = 0; part < threads; ++part) {
    const std::int64_t row = by_panels ? 0 : bound(m, part, threads);
    const std::int64_t rows = by_panels ? m : bound(m, part + 1, threads) - row;
    leaf.product({args.a.data_as<const float>() + row * args.a.stride(0), args.a.stride(0), rows, k,
                  1, args.packed.data_as<const std::uint8_t>(), args.bias.data_as<const float>(),
                  false, args.c.data_as<float>() + row * args.c.stride(0), args.c.stride(0), n,
                  by_panels ? bound(panels, part, threads) : 0,
                  by_panels ? bound(panels, part + 1, threads) : panels});
  }
}

}  // namespace

bool can_quantize(std::int64_t k) { return k <= cpu::kI8MostDepth; }

std::size_t quantized_bytes(std::int64_t n, std::int64_t k) {
  if (!can_quantize(k)) {
    base::fail(ErrorCode::kUnsupported, "8-bit products are at most {} deep, not {}",
               cpu::kI8MostDepth, k);
  }
  return static_cast<std::size_t>(cpu::i8_packed_bytes(n, k, 1));
}

void quantize_weights(const Context& context, const Tensor& weights, const Tensor& packed) {
  require_host(context);
  check_float32(weights, "weights");
  check_packed(packed, weights.size(0), weights.size(1));
  context.stream().launch([weights, packed] {
    const std::int64_t n = weights.size(0), k = weights.size(1), panels = cpu::i8_panels(n);
    const auto* source = weights.data_as<const float>();
    const int threads = threads_for(n * k);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int part = 0; part < threads; ++part) {
      cpu::best_i8_leaf().pack({source, 0, weights.stride(0), n, k, 1,
                                packed.data_as<std::uint8_t>(), bound(panels, part, threads),
                                bound(panels, part + 1, threads), source, k});
    }
  });
}

void quantized_matmul(const Context& context, const QuantizedArgs& args) {
  require_host(context);
  check_float32(args.a, "a");
  check_float32(args.c, "c");
  const std::int64_t m = args.a.size(0), n = args.c.size(1);
  check_packed(args.packed, n, args.a.size(1));
  SLUICE_CHECK(args.c.size(0) == m, "quantized matmul: c must have {} rows, not {}", m,
               args.c.size(0));
  SLUICE_CHECK(!args.bias || (args.bias.dtype() == DType::kFloat32 &&
                              args.bias.shape() == base::Shape{n} && args.bias.is_contiguous()),
               "quantized matmul: bias must be float32 [{}] without gaps", n);
  context.stream().launch([args] { run(args); });
}

}  // namespace sluice::kernels::matmul
