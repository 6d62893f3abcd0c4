#include "dlpack.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::python {
namespace {

using Code = nb::dlpack::dtype_code;

const std::vector<std::pair<Code, const char*>>& kinds() {
  static const std::vector<std::pair<Code, const char*>> names{{Code::Float, "float"},
                                                               {Code::Bfloat, "bfloat"},
                                                               {Code::Int, "int"},
                                                               {Code::UInt, "uint"},
                                                               {Code::Complex, "complex"}};
  return names;
}

/// "bfloat16", as NumPy and ml_dtypes call it.
std::string name_of(const nb::dlpack::dtype& dtype) {
  if (dtype.lanes == 1) {
    if (dtype.code == static_cast<std::uint8_t>(Code::Bool)) return "bool";
    for (const auto& [code, kind] : kinds()) {
      if (dtype.code == static_cast<std::uint8_t>(code)) return kind + std::to_string(dtype.bits);
    }
  }
  return "of DLPack's type " + std::to_string(dtype.code);
}

nb::dlpack::dtype dtype_of(const std::string& name) {
  if (name == "bool") return {static_cast<std::uint8_t>(Code::Bool), 8, 1};
  for (const auto& [code, kind] : kinds()) {
    for (const int bits : {8, 16, 32, 64, 128}) {
      if (name != kind + std::to_string(bits)) continue;
      return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
    }
  }
  throw nb::type_error((name + " has no equal in DLPack").c_str());
}

/// Read-only, as frameworks whose arrays never change export no others.
struct Tensor {
  explicit Tensor(nb::ndarray<nb::ro> given) : array(std::move(given)) {}
  nb::ndarray<nb::ro> array;
};

nb::tuple tuple_of(const std::int64_t* values, std::size_t count) {
  nb::list list;
  for (std::size_t i = 0; i < count; ++i) list.append(values[i]);
  return nb::tuple(list);
}

nb::object export_dlpack(const nb::object& owner, std::uintptr_t pointer,
                         const std::vector<std::size_t>& shape, const std::string& dtype,
                         int device_type, int device_id) {
  return nb::cast(nb::ndarray<nb::array_api>(reinterpret_cast<void*>(pointer), shape.size(),
                                             shape.data(), owner, nullptr, dtype_of(dtype),
                                             device_type, device_id));
}

}  // namespace

void bind_dlpack(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Tensor>(module, "Tensor",
                     "An array of another framework, from its DLPack capsule. Keeps its memory.")
      .def(nb::init<nb::ndarray<nb::ro>>(), "capsule"_a.noconvert())
      .def_prop_ro(
          "pointer",
          [](const Tensor& self) { return reinterpret_cast<std::uintptr_t>(self.array.data()); })
      .def_prop_ro(
          "shape",
          [](const Tensor& self) { return tuple_of(self.array.shape_ptr(), self.array.ndim()); })
      .def_prop_ro(
          "strides",
          [](const Tensor& self) { return tuple_of(self.array.stride_ptr(), self.array.ndim()); },
          "In elements.")
      .def_prop_ro("dtype", [](const Tensor& self) { return name_of(self.array.dtype()); })
      .def_prop_ro("device", [](const Tensor& self) {
        return nb::make_tuple(self.array.device_type(), self.array.device_id());
      });
  module.def("export_dlpack", export_dlpack, "owner"_a, "pointer"_a, "shape"_a, "dtype"_a,
             "device_type"_a, "device_id"_a,
             "An object with __dlpack__ and __dlpack_device__ for contiguous memory of `owner`.");
}

}  // namespace sluice::python
