#include "kernels/embedding/embedding.h"

#include <limits>
#include <vector>

#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/embedding/cpu/embedding.h"

namespace sluice::kernels::embedding {
namespace {

using base::DType;
using base::Shape;

bool is_narrow(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }

void check_master(const Tensor& table, std::string_view operation) {
  SLUICE_CHECK(table.dtype() == DType::kFloat32 || table.dtype() == DType::kFloat64,
               "{}: takes float32 or float64, not {}", operation, base::name_of(table.dtype()));
}

void check(const Tensor& table, const Tensor& tokens, const Tensor& rows,
           std::string_view operation) {
  SLUICE_CHECK(table.rank() == 2, "{}: the table must be [rows, features], not {}", operation,
               table.shape().to_string());
  check_dtype(tokens, DType::kInt32, operation, "tokens");
  const bool stored = table.dtype() == DType::kFloat32 && is_narrow(rows.dtype());
  if (!stored) check_dtype(rows, table.dtype(), operation, "rows");
  SLUICE_CHECK(table.is_contiguous() && tokens.is_contiguous() && rows.is_contiguous(),
               "{}: table, tokens and rows must be contiguous", operation);
  SLUICE_CHECK(rows.element_count() == tokens.element_count() * table.size(1),
               "{}: rows of shape {} don't hold {} tokens of {} features", operation,
               rows.shape().to_string(), tokens.element_count(), table.size(1));
}

void check(const Dropout& dropout, const Tensor& tokens, std::string_view operation) {
  if (dropout.rate == 0) return;
  SLUICE_CHECK(dropout.rate > 0 && dropout.rate < 1, "{}: the rate must be in [0, 1), not {}",
               operation, dropout.rate);
  SLUICE_ASSERT(tokens.element_count() <= std::numeric_limits<std::uint32_t>::max());
  SLUICE_CHECK(tokens.rank() == 2, "{}: tokens that are dropped out must be [time, rows], not {}",
               operation, tokens.shape().to_string());
  if (dropout.row_ids) {
    check_tensor(dropout.row_ids, DType::kInt32, {tokens.size(1)}, operation, "row_ids");
  }
}

/// The first axis may be strided.
void check_tables(const Tensor& tables, std::string_view operation, std::string_view name) {
  SLUICE_CHECK(tables.rank() == 3 && tables.size(0) > 0,
               "{}: {} must be [tables, rows, features], not {}", operation, name,
               tables.shape().to_string());
  SLUICE_CHECK(tables.select(0, 0).is_contiguous(), "{}: each of {} must be contiguous", operation,
               name);
}

void check_tables(const GatherArgs& args, std::string_view operation) {
  check_tables(args.table, operation, "tables");
  check_tables(args.out, operation, "rows");
  check_dtype(args.out, args.table.dtype(), operation, "rows");
  SLUICE_CHECK(args.dropout.rate == 0, "{}: rows of several tables aren't dropped out", operation);
  const std::int64_t count = args.tokens ? args.tokens.element_count() : args.out.size(1);
  if (args.tokens) check_tensor(args.tokens, DType::kInt32, {count}, operation, "tokens");
  SLUICE_CHECK(args.out.shape() == Shape({args.table.size(0), count, args.table.size(2)}) &&
                   (args.tokens || count <= args.table.size(1)),
               "{}: {} rows of tables {} don't fit those of {}", operation, count,
               args.table.shape().to_string(), args.out.shape().to_string());
}

void check(const GatherArgs& args) {
  if (args.table.rank() == 3) return check_tables(args, "embedding gather");
  check(args.table, args.tokens, args.out, "embedding gather");
  if (args.table.dtype() != DType::kInt32 && !is_narrow(args.table.dtype())) {
    check_master(args.table, "embedding gather");
  }
  check(args.dropout, args.tokens, "embedding gather");
}

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::embedding, "embedding");
}

}  // namespace

elementwise::DropoutArgs dropout_args(const Dropout& dropout, const Tensor& tokens,
                                      const Tensor& values, std::int64_t features) {
  const Tensor rows = values.reshape({tokens.size(0), tokens.size(1), features});
  return {rows, rows, dropout.row_ids, dropout.rate, dropout.source};
}

void gather(const Context& context, const Tensor& table, const Tensor& tokens, const Tensor& out,
            const Dropout& dropout) {
  const GatherArgs args{table, tokens, out, dropout};
  check(args);
  leaves(context).gather(context.stream(), args);
}

void gather_each(const Context& context, std::span<const Picked> all) {
  std::vector<GatherArgs> args;
  for (const Picked& one : all) {
    check(args.emplace_back(GatherArgs{one.table, one.tokens, one.out, {}}));
    SLUICE_CHECK(args.back().count() == args.front().count(),
                 "embedding gather: {} rows of one table and {} of another", args.front().count(),
                 args.back().count());
  }
  leaves(context).gather_each(context.stream(), args);
}

void scatter_each(const Context& context, std::span<const Placed> all) {
  constexpr const char* kOperation = "embedding scatter";
  std::vector<GatherArgs> args;
  for (const Placed& one : all) {
    check_tables(args.emplace_back(GatherArgs{one.table, one.tokens, one.rows, {}}), kOperation);
    SLUICE_CHECK(one.tokens && args.back().count() == args.front().count(),
                 "embedding scatter: each table takes as many rows, by tokens");
  }
  leaves(context).scatter_each(context.stream(), args);
}

void gather_backward(const Context& context, const GatherBackwardArgs& args) {
  check(args.d_table, args.tokens, args.d_out, "embedding gather backward");
  check_master(args.d_table, "embedding gather backward");
  check_marks(args.marks, args.d_table.element_count(), "embedding gather backward");
  check(args.dropout, args.tokens, "embedding gather backward");
  leaves(context).gather_backward(context.stream(), args);
}

}  // namespace sluice::kernels::embedding
