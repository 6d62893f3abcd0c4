#include "kernels/matmul/halved.h"

#include "base/check.h"
#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/matmul/leaves.h"

namespace sluice::kernels::matmul {
namespace {

using base::DType;
using base::Shape;

const HalvedLeaves* find_leaves(const runtime::Device& device) {
  const DeviceKernels* kernels = device.kernels();
  return kernels == nullptr || kernels->matmul == nullptr ? nullptr : kernels->matmul->halved;
}

const HalvedLeaves& leaves(const Context& context) {
  const HalvedLeaves* found = find_leaves(context.device());
  if (found == nullptr) {
    base::fail(ErrorCode::kUnsupported, "device {} multiplies no float32 as float16",
               context.device().name());
  }
  return *found;
}

void check(const AlphaArgs& args) {
  for (const Tensor& scale : {args.left, args.right}) {
    if (scale) check_tensor(scale, DType::kFloat32, Shape{kScaleNumbers}, "make_alphas", "a scale");
  }
  if (args.factor) check_tensor(args.factor, DType::kFloat64, Shape{1}, "make_alphas", "factor");
  check_tensor(args.alpha, DType::kFloat32, Shape{kAlphaNumbers}, "make_alphas", "alpha");
}

}  // namespace

bool halves(const Context& context, std::int64_t m, std::int64_t n, std::int64_t k) {
  // Multiplications from which on it pays (docs/performance/float32-and-tf32.md), and float16's
  // numbers in the 16 bytes that tensor cores want rows aligned to.
  constexpr std::int64_t kFewest = std::int64_t{1} << 32, kAligned = 8;
  return context.tf32() && find_leaves(context.device()) != nullptr && n % kAligned == 0 &&
         k % kAligned == 0 && m * n * k >= kFewest;
}

void halve(const Context& context, const HalveArgs& args) {
  check_tensor(args.x, DType::kFloat32, args.x.shape(), "halve", "x");
  check_tensor(args.halved, DType::kFloat16, args.x.shape(), "halve", "halved");
  check_tensor(args.scale, DType::kFloat32, Shape{kScaleNumbers}, "halve", "scale");
  leaves(context).halve(context, args);
}

void make_alphas(const Context& context, std::span<const AlphaArgs> alphas) {
  SLUICE_CHECK(alphas.size() <= kMostAlphas, "make_alphas: makes {} at a time, not {}", kMostAlphas,
               alphas.size());
  if (alphas.empty()) return;
  for (const AlphaArgs& args : alphas) check(args);
  leaves(context).make_alphas(context, alphas);
}

void halved_matmul(const Context& context, const HalvedMatmulArgs& args) {
  constexpr std::string_view kName = "halved_matmul";
  for (const Tensor& factor : {args.a, args.b}) {
    check_matrix(factor, kName, "a factor");
    check_dtype(factor, DType::kFloat16, kName, "a factor");
  }
  const std::int64_t m = args.a.size(args.transpose_a ? 1 : 0);
  const std::int64_t k = args.a.size(args.transpose_a ? 0 : 1);
  const std::int64_t n = args.b.size(args.transpose_b ? 0 : 1);
  SLUICE_CHECK(args.b.size(args.transpose_b ? 1 : 0) == k && m > 0 && n > 0 && k > 0,
               "{}: a {}{} and b {}{} don't fit together", kName, args.a.shape().to_string(),
               args.transpose_a ? " transposed" : "", args.b.shape().to_string(),
               args.transpose_b ? " transposed" : "");
  check_tensor(args.c, DType::kFloat32, Shape{m, n}, kName, "c");
  check_tensor(args.alpha, DType::kFloat32, Shape{kAlphaNumbers}, kName, "alpha");
  if (args.bias) check_tensor(args.bias, DType::kFloat32, Shape{n}, kName, "bias");
  leaves(context).matmul(context, args);
}

}  // namespace sluice::kernels::matmul
