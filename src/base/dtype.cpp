#include "base/dtype.h"

#include <array>

namespace sluice::base {
namespace {

struct Entry {
  DType dtype;
  std::size_t size;
  std::string_view name;
  std::string_view short_name;
};

constexpr std::array kEntries{
    Entry{DType::kFloat64, 8, "float64", "f64"},    Entry{DType::kFloat32, 4, "float32", "f32"},
    Entry{DType::kBFloat16, 2, "bfloat16", "bf16"}, Entry{DType::kFloat16, 2, "float16", "f16"},
    Entry{DType::kInt64, 8, "int64", "i64"},        Entry{DType::kInt32, 4, "int32", "i32"},
    Entry{DType::kUInt8, 1, "uint8", "u8"},         Entry{DType::kInt8, 1, "int8", "i8"},
};

const Entry& entry_of(DType dtype) {
  const auto& entry = kEntries.at(static_cast<std::size_t>(dtype));
  SLUICE_ASSERT(entry.dtype == dtype);
  return entry;
}

}  // namespace

std::size_t size_of(DType dtype) { return entry_of(dtype).size; }

std::string_view name_of(DType dtype) { return entry_of(dtype).name; }

DType parse_dtype(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (name == entry.name || name == entry.short_name) return entry.dtype;
  }
  fail(ErrorCode::kInvalidArgument,
       "unknown dtype '{}'; use one of float64, float32, bfloat16, float16", name);
}

}  // namespace sluice::base
