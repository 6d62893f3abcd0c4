#include "kernels/matmul/matmul.h"

#include "base/check.h"
#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/matmul/cpu/matmul.h"

namespace sluice::kernels::matmul {
namespace {

using base::DType;

/// On a GPU sums may be rounded to 16 bits as they are written.
void check_dtypes(const MatmulArgs& args, bool rounds) {
  const DType dtype = args.a.dtype();
  SLUICE_CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBFloat16 ||
                   dtype == DType::kFloat16,
               "matmul: takes float32, float64, bfloat16 or float16, not {}", base::name_of(dtype));
  SLUICE_CHECK(args.b.dtype() == dtype, "matmul: a is {} but b is {}", base::name_of(dtype),
               base::name_of(args.b.dtype()));
  const DType wide = base::policy_of(dtype).accumulate;
  const bool narrow_bias = !args.bias || args.bias.dtype() == dtype;
  if (rounds && args.c.dtype() == dtype && narrow_bias) return;
  SLUICE_CHECK(args.c.dtype() == wide, "matmul: c must be {}, not {}", base::name_of(wide),
               base::name_of(args.c.dtype()));
  SLUICE_CHECK(!args.bias || args.bias.dtype() == wide, "matmul: bias must be {}, not {}",
               base::name_of(wide), base::name_of(args.bias.dtype()));
}

void check(const Context& context, const MatmulArgs& args) {
  check_matrix(args.a, "matmul", "a");
  check_matrix(args.b, "matmul", "b");
  check_matrix(args.c, "matmul", "c");
  check_dtypes(args, !context.device().runs_host_kernels());
  const std::int64_t m = args.a.size(args.transpose_a ? 1 : 0);
  const std::int64_t k = args.a.size(args.transpose_a ? 0 : 1);
  const std::int64_t n = args.b.size(args.transpose_b ? 0 : 1);
  SLUICE_CHECK(args.b.size(args.transpose_b ? 1 : 0) == k,
               "matmul: inner sizes differ: a {}{}, b {}{}", args.a.shape().to_string(),
               args.transpose_a ? " transposed" : "", args.b.shape().to_string(),
               args.transpose_b ? " transposed" : "");
  SLUICE_CHECK(args.c.size(0) == m && args.c.size(1) == n, "matmul: c must be [{}, {}], not {}", m,
               n, args.c.shape().to_string());
  SLUICE_CHECK(
      !args.bias || (args.bias.rank() == 1 && args.bias.size(0) == n && args.bias.is_contiguous()),
      "matmul: bias must be [{}] without gaps, not {}", n, args.bias.shape().to_string());
}

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::matmul, "matmul");
}

}  // namespace

void matmul(const Context& context, const MatmulArgs& args) {
  check(context, args);
  leaves(context).matmul(context, args);
}

}  // namespace sluice::kernels::matmul
