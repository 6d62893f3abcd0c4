#include "kernels/optimizer/marked_chunks.h"

#include "kernels/check.h"
#include "kernels/device_kernels.h"
#include "kernels/optimizer/cpu/optimizer.h"

namespace sluice::kernels::optimizer {
namespace {

using base::DType;
using base::Shape;

const Leaves& leaves(const Context& context) {
  return leaves_of(context, cpu::kLeaves, &DeviceKernels::optimizer, "optimizer");
}

std::int64_t capacity_of(const MarkedChunks& list, std::string_view operation) {
  check_dtype(list.chunks, DType::kInt32, operation, "chunks");
  SLUICE_CHECK(list.chunks.rank() == 1 && list.chunks.is_contiguous(),
               "{}: chunks must be one flat axis, not {}", operation,
               list.chunks.shape().to_string());
  check_tensor(list.count, DType::kInt32, Shape{1}, operation, "count");
  return list.chunks.size(0);
}

void check(const PackedChunksArgs& args, std::string_view operation) {
  const std::int64_t capacity = capacity_of(args.list, operation);
  const DType dtype = args.packed.dtype();
  SLUICE_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16,
               "{}: packed must be float32 or bfloat16, not {}", operation, base::name_of(dtype));
  check_tensor(args.packed, dtype, Shape{capacity * kElementsPerMark}, operation, "packed");
  check_dtype(args.gradients, DType::kFloat32, operation, "gradients");
  SLUICE_CHECK(args.gradients.rank() == 1 && args.gradients.is_contiguous(),
               "{}: gradients must be one flat axis, not {}", operation,
               args.gradients.shape().to_string());
}

}  // namespace

std::size_t list_marked_bytes(const Context& context, std::int64_t marks) {
  return leaves(context).list_marked_bytes(marks);
}

void list_marked(const Context& context, const ListMarkedArgs& args) {
  capacity_of(args.list, "list_marked");
  check_dtype(args.marks, DType::kUInt8, "list_marked", "marks");
  SLUICE_CHECK(args.marks.rank() == 1 && args.marks.is_contiguous(),
               "list_marked: marks must be one flat axis, not {}", args.marks.shape().to_string());
  leaves(context).list_marked(context.stream(), args);
}

void pack_chunks(const Context& context, const PackedChunksArgs& args) {
  check(args, "pack_chunks");
  leaves(context).pack_chunks(context.stream(), args);
}

void unpack_chunks(const Context& context, const PackedChunksArgs& args) {
  check(args, "unpack_chunks");
  leaves(context).unpack_chunks(context.stream(), args);
}

}  // namespace sluice::kernels::optimizer
