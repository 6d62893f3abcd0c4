#include <array>

#include "base/check.h"
#include "io/formats/onnx/onnx_file.h"

namespace sluice::io::formats {
namespace {

// Fields of TensorProto with typed values.
constexpr std::uint32_t kFloats = 4, kInt32s = 5, kStrings = 6, kInt64s = 7, kDoubles = 10;
constexpr std::uint32_t kUInt64s = 11;

constexpr std::array kTypes{
    ElementType{1, "FLOAT", 4, DType::kFloat32, kFloats},
    ElementType{2, "UINT8", 1, DType::kUInt8, kInt32s},
    ElementType{3, "INT8", 1, DType::kInt8, kInt32s, false, true},
    ElementType{4, "UINT16", 2, {}, kInt32s},
    ElementType{5, "INT16", 2, {}, kInt32s, false, true},
    ElementType{6, "INT32", 4, DType::kInt32, kInt32s, false, true},
    ElementType{7, "INT64", 8, DType::kInt64, kInt64s, false, true},
    ElementType{8, "STRING", 0, {}, kStrings, true},
    ElementType{9, "BOOL", 1, {}, kInt32s},
    ElementType{10, "FLOAT16", 2, DType::kFloat16, kInt32s},
    ElementType{11, "DOUBLE", 8, DType::kFloat64, kDoubles},
    ElementType{12, "UINT32", 4, {}, kUInt64s},
    ElementType{13, "UINT64", 8, {}, kUInt64s},
    ElementType{14, "COMPLEX64"},
    ElementType{15, "COMPLEX128"},
    ElementType{16, "BFLOAT16", 2, DType::kBFloat16, kInt32s},
    ElementType{17, "FLOAT8E4M3FN", 1, {}, kInt32s},
    ElementType{18, "FLOAT8E4M3FNUZ", 1, {}, kInt32s},
    ElementType{19, "FLOAT8E5M2", 1, {}, kInt32s},
    ElementType{20, "FLOAT8E5M2FNUZ", 1, {}, kInt32s},
    ElementType{21, "UINT4"},
    ElementType{22, "INT4"},
    ElementType{23, "FLOAT4E2M1"},
    ElementType{24, "FLOAT8E8M0", 1, {}, kInt32s},
    ElementType{25, "UINT2"},
    ElementType{26, "INT2"},
    ElementType{27, "FLOAT6E2M3"},
    ElementType{28, "FLOAT6E3M2"},
};

}  // namespace

std::span<const ElementType> onnx_types() { return kTypes; }

std::string onnx_type_name(std::int32_t number) {
  const ElementType* type = find_type(kTypes, number);
  return type == nullptr ? fmt::format("type {}", number) : std::string(type->name);
}

std::int32_t onnx_type_of(DType dtype) {
  const ElementType* type = find_type(kTypes, dtype);
  SLUICE_ASSERT(type != nullptr);
  return type->number;
}

}  // namespace sluice::io::formats
