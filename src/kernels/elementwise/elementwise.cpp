#include "kernels/elementwise/elementwise.h"

#include <array>

#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/elementwise/cpu/elementwise.h"

namespace sluice::kernels::elementwise {
namespace {

using base::DType;
using base::Shape;

void check_float(const Tensor& tensor, std::string_view operation) {
  const DType dtype = tensor.dtype();
  SLUICE_CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat64,
               "{}: takes float32 or float64, not {}", operation, base::name_of(dtype));
}

void check_storage(const Tensor& tensor, std::string_view operation) {
  if (tensor.dtype() == DType::kBFloat16 || tensor.dtype() == DType::kFloat16) return;
  check_float(tensor, operation);
}

void check_contiguous(const Tensor& tensor, std::string_view operation, std::string_view name) {
  SLUICE_CHECK(tensor.is_contiguous(), "{}: {} must be contiguous", operation, name);
}

void check_parts(std::span<const Tensor> parts, const Tensor& whole, std::string_view operation) {
  check_storage(whole, operation);
  check_matrix(whole, operation, "the whole");
  std::int64_t columns = 0;
  for (const Tensor& part : parts) {
    check_dtype(part, whole.dtype(), operation, "a part");
    check_matrix(part, operation, "a part");
    SLUICE_CHECK(part.size(0) == whole.size(0), "{}: a part has {} rows, the whole {}", operation,
                 part.size(0), whole.size(0));
    columns += part.size(1);
  }
  SLUICE_CHECK(columns == whole.size(1), "{}: the parts have {} columns together, the whole {}",
               operation, columns, whole.size(1));
}

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::elementwise, "elementwise");
}

}  // namespace

void fill(const Context& context, const Tensor& x, double value) {
  if (x.dtype() != DType::kInt32) check_float(x, "fill");
  check_contiguous(x, "fill", "x");
  leaves(context).fill(context.stream(), x, value);
}

void scale(const Context& context, const Tensor& x, double factor) {
  check_float(x, "scale");
  check_contiguous(x, "scale", "x");
  leaves(context).scale(context.stream(), x, factor);
}

void accumulate(const Context& context, double factor, const Tensor& x, const Tensor& y) {
  check_float(x, "accumulate");
  check_contiguous(x, "accumulate", "x");
  check_tensor(y, x.dtype(), x.shape(), "accumulate", "y");
  leaves(context).accumulate(context.stream(), factor, x, y);
}

void convert(const Context& context, const Tensor& source, const Tensor& target) {
  convert(context, std::array{Conversion{source, target}});
}

void convert(const Context& context, std::span<const Conversion> conversions) {
  for (const auto& [source, target] : conversions) {
    check_contiguous(source, "convert", "source");
    check_storage(source, "convert");
    check_storage(target, "convert");
    check_tensor(target, target.dtype(), source.shape(), "convert", "target");
  }
  if (!conversions.empty()) leaves(context).convert(context.stream(), conversions);
}

void rearrange(const Context& context, const Tensor& source, const Tensor& target) {
  check_storage(source, "rearrange");
  check_dtype(target, source.dtype(), "rearrange", "target");
  SLUICE_CHECK(source.rank() == 3 && source.shape() == target.shape(),
               "rearrange: source and target must have the same 3 axes, not {} and {}",
               source.shape().to_string(), target.shape().to_string());
  for (const Tensor& tensor : {source, target}) {
    SLUICE_CHECK(tensor.size(2) <= 1 || tensor.stride(2) == 1,
                 "rearrange: columns must lie next to each other, not {} apart", tensor.stride(2));
  }
  if (source.element_count() > 0) leaves(context).rearrange(context.stream(), source, target);
}

void tanh_forward(const Context& context, const Tensor& x, const Tensor& y) {
  check_float(x, "tanh");
  check_contiguous(x, "tanh", "x");
  check_tensor(y, x.dtype(), x.shape(), "tanh", "y");
  leaves(context).tanh_forward(context.stream(), x, y);
}

void tanh_backward(const Context& context, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  check_float(y, "tanh backward");
  check_contiguous(y, "tanh backward", "y");
  check_tensor(dy, y.dtype(), y.shape(), "tanh backward", "dy");
  check_tensor(dx, y.dtype(), y.shape(), "tanh backward", "dx");
  leaves(context).tanh_backward(context.stream(), y, dy, dx);
}

void add_bias(const Context& context, const Tensor& bias, const Tensor& x) {
  check_float(x, "add_bias");
  check_matrix(x, "add_bias", "x");
  check_tensor(bias, x.dtype(), Shape{x.size(1)}, "add_bias", "bias");
  leaves(context).add_bias(context.stream(), bias, x);
}

void standardize(const Context& context, const StandardizeArgs& args) {
  constexpr std::string_view kName = "standardize";
  check_storage(args.y, kName);
  check_matrix(args.x, kName, "x");
  check_tensor(args.x, DType::kFloat32, args.x.shape(), kName, "x");
  check_tensor(args.y, args.y.dtype(), args.x.shape(), kName, "y");
  const DType master = base::policy_of(args.y.dtype()).master;
  check_tensor(args.mean, master, Shape{args.x.size(1)}, kName, "mean");
  check_tensor(args.factor, master, Shape{args.x.size(1)}, kName, "factor");
  leaves(context).standardize(context.stream(), args);
}

void column_sums(const Context& context, const Tensor& x, const Tensor& sums, bool accumulate,
                 const Tensor& factor) {
  check_storage(x, "column_sums");
  check_matrix(x, "column_sums", "x");
  check_tensor(sums, base::policy_of(x.dtype()).master, Shape{x.size(1)}, "column_sums", "sums");
  if (factor) {
    check_tensor(factor, DType::kFloat32, factor.shape(), "column_sums", "factor");
    SLUICE_CHECK(factor.element_count() > 0, "column_sums: factor has no number");
  }
  leaves(context).column_sums(context.stream(), x, sums, accumulate, factor);
}

void concatenate(const Context& context, std::span<const Tensor> parts, const Tensor& whole) {
  check_parts(parts, whole, "concatenate");
  leaves(context).concatenate(context.stream(), {parts.begin(), parts.end()}, whole);
}

void split(const Context& context, const Tensor& whole, std::span<const Tensor> parts) {
  check_parts(parts, whole, "split");
  leaves(context).split(context.stream(), whole, {parts.begin(), parts.end()});
}

void dropout(const Context& context, const DropoutArgs& args) {
  check_storage(args.x, "dropout");
  SLUICE_CHECK(args.x.rank() == 3, "dropout: x must be [time, rows, features], not {}",
               args.x.shape().to_string());
  check_contiguous(args.x, "dropout", "x");
  check_tensor(args.y, args.x.dtype(), args.x.shape(), "dropout", "y");
  if (args.row_ids) {
    check_tensor(args.row_ids, DType::kInt32, Shape{args.x.size(1)}, "dropout", "row_ids");
  }
  SLUICE_CHECK(args.rate >= 0 && args.rate < 1, "dropout: the rate must be in [0, 1), not {}",
               args.rate);
  leaves(context).dropout(context.stream(), args);
}

}  // namespace sluice::kernels::elementwise
