#include "bench/gemm/product.h"

#include <algorithm>

namespace sluice::bench::gemm {
namespace {

void add(std::vector<Product>& products, const Product& product) {
  const bool known = std::ranges::any_of(products, [&](const Product& other) {
    return other.kind == product.kind && other.m == product.m && other.n == product.n &&
           other.k == product.k && other.dtype == product.dtype && other.tf32 == product.tf32 &&
           other.device == product.device;
  });
  if (!known) products.push_back(product);
}

}  // namespace

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kInput:
      return "input";
    case Kind::kStep:
      return "step";
    case Kind::kStepBackward:
      return "step-backward";
    case Kind::kInputBackward:
      return "input-backward";
    case Kind::kGradient:
      return "gradient";
  }
  base::fail(ErrorCode::kInternal, "no such kind of product");
}

std::vector<Product> products_of(const std::vector<BenchShape>& shapes, bool training) {
  std::vector<Product> products;
  for (const BenchShape& shape : shapes) {
    const kernels::recurrent::Descriptor d = shape.descriptor(false);
    const std::int64_t gates = d.gates() * shape.hidden;
    const std::int64_t steps = shape.time * shape.batch;
    const auto one = [&](Kind kind, std::int64_t m, std::int64_t n, std::int64_t k) {
      add(products, {shape.name, kind, m, n, k, shape.dtype, shape.tf32, shape.device});
    };
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
      const std::int64_t input = d.input_of(layer), output = d.output_of(layer);
      one(Kind::kInput, steps, gates, input);
      one(Kind::kStep, shape.batch, gates, output);
      if (!training || shape.inference_only) continue;
      one(Kind::kStepBackward, shape.batch, output, gates);
      one(Kind::kInputBackward, steps, input, gates);
      one(Kind::kGradient, gates, input, steps);
    }
  }
  return products;
}

}  // namespace sluice::bench::gemm
