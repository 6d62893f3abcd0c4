#include "kernels/embedding/embedding.h"

#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/embedding/cpu/embedding.h"

namespace sluice::kernels::embedding {
namespace {

using base::DType;

bool is_narrow(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }

void check_master(const Tensor& table, std::string_view operation) {
  SLUICE_CHECK(table.dtype() == DType::kFloat32 || table.dtype() == DType::kFloat64,
               "{}: takes float32 or float64, not {}", operation, base::name_of(table.dtype()));
}

void check(const Tensor& table, const Tensor& tokens, const Tensor& rows,
           std::string_view operation) {
  check_dtype(tokens, DType::kInt32, operation, "tokens");
  const bool stored =
      table.rank() == 2 && table.dtype() == DType::kFloat32 && is_narrow(rows.dtype());
  if (!stored) check_dtype(rows, table.dtype(), operation, "rows");
  SLUICE_CHECK(table.is_contiguous() && tokens.is_contiguous() && rows.is_contiguous(),
               "{}: table, tokens and rows must be contiguous", operation);
  const std::int64_t features = table.size(table.rank() - 1);
  const std::int64_t parts = table.rank() == 3 ? table.size(0) : 1;
  SLUICE_CHECK(rows.element_count() == parts * tokens.element_count() * features,
               "{}: rows of shape {} don't hold {} tokens of {} features", operation,
               rows.shape().to_string(), parts * tokens.element_count(), features);
}

void check_rank(const Tensor& table, std::size_t most, std::string_view operation) {
  SLUICE_CHECK(table.rank() >= 2 && table.rank() <= most,
               "{}: the table must be [rows, features], not {}", operation,
               table.shape().to_string());
}

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::embedding, "embedding");
}

}  // namespace

void gather(const Context& context, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  check_rank(table, 3, "embedding gather");
  check(table, tokens, out, "embedding gather");
  if (table.dtype() != DType::kInt32 && !is_narrow(table.dtype())) {
    check_master(table, "embedding gather");
  }
  leaves(context).gather(context.stream(), table, tokens, out);
}

void gather_backward(const Context& context, const GatherBackwardArgs& args) {
  check_rank(args.d_table, 2, "embedding gather backward");
  check(args.d_table, args.tokens, args.d_out, "embedding gather backward");
  check_master(args.d_table, "embedding gather backward");
  check_touched(args.touched, args.d_table.element_count(), "embedding gather backward");
  leaves(context).gather_backward(context.stream(), args);
}

}  // namespace sluice::kernels::embedding
