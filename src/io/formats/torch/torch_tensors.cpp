#include "io/formats/torch/torch_tensors.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

using Items = std::span<const PickleValue* const>;

[[noreturn]] void refuse(std::string_view where, std::string_view reason) {
  base::fail(ErrorCode::kFormat, "{}: a tensor is damaged: {}; save the file again", where, reason);
}

struct TorchType {
  std::string_view storage;  ///< "Float" of FloatStorage
  std::string_view dtype;    ///< "float32" of torch.float32
  std::size_t bytes;
  std::optional<NumberKind> kind;  ///< empty if it is not read
};

constexpr TorchType kTypes[] = {
    {"Float", "float32", 4, NumberKind::kFloat},
    {"Double", "float64", 8, NumberKind::kFloat},
    {"Half", "float16", 2, NumberKind::kFloat},
    {"BFloat16", "bfloat16", 2, NumberKind::kBFloat16},
    {"Long", "int64", 8, NumberKind::kSigned},
    {"Int", "int32", 4, NumberKind::kSigned},
    {"Short", "int16", 2, NumberKind::kSigned},
    {"Char", "int8", 1, NumberKind::kSigned},
    {"Byte", "uint8", 1, NumberKind::kUnsigned},
    {"Bool", "bool", 1, NumberKind::kBool},
    {"Untyped", "uint8", 1, NumberKind::kUnsigned},
    {"", "uint16", 2, NumberKind::kUnsigned},
    {"", "uint32", 4, NumberKind::kUnsigned},
    {"", "uint64", 8, NumberKind::kUnsigned},
    {"ComplexFloat", "complex64", 8, std::nullopt},
    {"ComplexDouble", "complex128", 16, std::nullopt},
    {"QInt8", "qint8", 1, std::nullopt},
    {"QUInt8", "quint8", 1, std::nullopt},
    {"QInt32", "qint32", 4, std::nullopt},
    {"QUInt4x2", "quint4x2", 1, std::nullopt},
    {"QUInt2x4", "quint2x4", 1, std::nullopt},
};

const TorchType* type_of_storage(std::string_view name) {
  static constexpr std::string_view kEnding = "Storage";
  if (!name.ends_with(kEnding) || name.size() == kEnding.size()) return nullptr;
  name.remove_suffix(kEnding.size());
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const TorchType& type) { return type.storage == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

const TorchType* type_of_dtype(const PickleValue& value) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& type) {
    return value.is_global("torch." + std::string(type.dtype));
  });
  return found == std::end(kTypes) ? nullptr : found;
}

Items arguments_of(const PickleValue* value, std::size_t least, std::string_view where) {
  if (value == nullptr || !value->is(PickleKind::kTuple) || value->items().size() < least) {
    refuse(where, "its arguments are missing");
  }
  return value->items();
}

/// A tuple of ints, or torch.Size of one.
std::vector<std::int64_t> numbers_of(const PickleValue* value, std::string_view where) {
  if (value->is_call_of("torch.Size")) value = arguments_of(value->arguments(), 1, where)[0];
  if (!value->is(PickleKind::kTuple) && !value->is(PickleKind::kList)) {
    refuse(where, "its sizes or strides are no tuple");
  }
  std::vector<std::int64_t> numbers;
  for (const PickleValue* number : value->items()) {
    if (!number->is(PickleKind::kInt)) refuse(where, "a size or a stride is no int");
    numbers.push_back(number->integer());
  }
  return numbers;
}

TorchTensor refused(std::string reason) {
  TorchTensor tensor;
  tensor.refusal = std::move(reason);
  return tensor;
}

/// (storage, offset, sizes, strides, …, dtype of version 3)
TorchTensor strided_tensor(Items parts, bool has_dtype, std::string_view where) {
  const TorchStorageId id = torch_storage_id(*parts[0], where);
  const TorchType* dtype = has_dtype ? type_of_dtype(*parts[6]) : type_of_storage(id.type_name);
  if (dtype == nullptr || !dtype->kind) {
    const std::string name = dtype != nullptr ? std::string(dtype->dtype)
                             : has_dtype && parts[6]->is(PickleKind::kGlobal)
                                 ? parts[6]->global_name()
                                 : id.type_name;
    return refused("its dtype is " + quote_name(name));
  }
  TorchTensor tensor;
  tensor.type = *number_type(*dtype->kind, dtype->bytes);
  tensor.dtype_name = dtype->dtype;
  tensor.storage = id.key;
  if (!parts[1]->is(PickleKind::kInt)) refuse(where, "its offset is no int");
  tensor.view = {numbers_of(parts[2], where), numbers_of(parts[3], where), parts[1]->integer()};
  if (!extent_of(tensor.view) || !bytes_of(tensor.view.sizes, dtype->bytes)) {
    refuse(where, "its sizes and strides do not fit each other");
  }
  if (tensor.view.sizes.size() > Shape::kMaxRank) {
    tensor.refusal = "it has more than " + std::to_string(Shape::kMaxRank) + " axes";
  }
  return tensor;
}

TorchTensor made_by(const PickleValue& function, const PickleValue* arguments,
                    std::string_view where) {
  if (function.is_global("torch._utils._rebuild_tensor") ||
      function.is_global("torch._utils._rebuild_tensor_v2")) {
    return strided_tensor(arguments_of(arguments, 4, where), false, where);
  }
  if (function.is_global("torch._utils._rebuild_tensor_v3")) {
    return strided_tensor(arguments_of(arguments, 7, where), true, where);
  }
  return refused("it is made by " + quote_name(function.global_name()) +
                 ", as quantized, sparse, nested and meta tensors are");
}

bool makes_tensor(const PickleValue& function) {
  return function.is(PickleKind::kGlobal) && function.items()[0]->text() == "torch._utils" &&
         function.items()[1]->text().starts_with("_rebuild_") &&
         !function.is_global("torch._utils._rebuild_parameter") &&
         !function.is_global("torch._utils._rebuild_parameter_with_state");
}

}  // namespace

TorchStorageId torch_storage_id(const PickleValue& value, std::string_view where) {
  if (!value.is(PickleKind::kPersistentId)) refuse(where, "it has no storage");
  const Items parts = arguments_of(value.items()[0], 5, where);
  if (!parts[0]->is_text() || parts[0]->text() != "storage" || !parts[1]->is(PickleKind::kGlobal) ||
      !parts[2]->is_text()) {
    refuse(where, "its storage is not named as PyTorch names it");
  }
  if (parts.size() > 5 && !parts[5]->is(PickleKind::kNone)) {
    base::fail(ErrorCode::kUnsupported,
               "{}: a storage is a view of another one; load the file with PyTorch and save it "
               "again",
               where);
  }
  TorchStorageId id{parts[2]->text(), std::string(parts[1]->items()[1]->text()), {}, 0};
  if (const TorchType* type = type_of_storage(id.type_name)) {
    id.element_bytes = type->bytes;
    if (type->kind) id.type = number_type(*type->kind, type->bytes);
  }
  return id;
}

bool is_torch_tensor(const PickleValue& value) {
  if (!value.is(PickleKind::kObject)) return false;
  return makes_tensor(*value.callable()) || value.is_call_of("torch._tensor._rebuild_from_type_v2");
}

TorchTensor torch_tensor(const PickleValue& value, std::string_view where) {
  if (!value.is_call_of("torch._tensor._rebuild_from_type_v2")) {
    return made_by(*value.callable(), value.arguments(), where);
  }
  // (function, class, its arguments, state): a tensor of a class of its own.
  const Items parts = arguments_of(value.arguments(), 3, where);
  if (!makes_tensor(*parts[0])) return refused("it is of a class of its own");
  return made_by(*parts[0], parts[2], where);
}

}  // namespace sluice::io::formats
