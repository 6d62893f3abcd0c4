#pragma once

#include <cstddef>

#include "runtime/context.h"
#include "runtime/tensor.h"

/// Products with weights that are packed as 8-bit integers: docs/quantization.md. On the CPU only;
/// a GPU throws ErrorCode::kUnsupported.
namespace sluice::kernels::matmul {

using runtime::Context;
using runtime::Tensor;

/// Whether products may be k deep.
bool can_quantize(std::int64_t k);

/// Bytes that weights [n, k] take packed. Throws ErrorCode::kUnsupported if k is too large.
std::size_t quantized_bytes(std::int64_t n, std::int64_t k);

/// Packs float32 weights [n, k], finite ones, each row with a scale of its own. `packed` is uint8
/// [quantized_bytes(n, k)], aligned to 64 bytes.
void quantize_weights(const Context& context, const Tensor& weights, const Tensor& packed);

struct QuantizedArgs {
  Tensor a;       ///< [m, k] float32; each row is rounded to integers by its largest value
  Tensor packed;  ///< of weights [n, k]
  Tensor c;       ///< [m, n] float32, overwritten
  Tensor bias;    ///< [n] float32; optional
};

/// c = a * weights^T + bias, with sums of integers. A row's bits depend on nothing but the row and
/// the weights.
void quantized_matmul(const Context& context, const QuantizedArgs& args);

}  // namespace sluice::kernels::matmul
