#include "errors.h"

#include <string>

namespace sluice::python {
namespace {

constexpr const char* kError = "Error";
constexpr const char* kDeviceError = "DeviceError";
constexpr const char* kDeviceLost = "DeviceLost";

nb::object add(nb::module_& module, const char* name, const char* doc, nb::handle base) {
  const std::string qualified = std::string("sluice.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base.ptr(), nullptr);
  if (made == nullptr) nb::raise_python_error();
  nb::object type = nb::steal(made);
  module.attr(name) = type;
  return type;
}

nb::object own_type(const char* name) { return nb::module_::import_("sluice._native").attr(name); }

nb::object type_for(sluice_status status) {
  switch (status) {
    case SLUICE_INVALID_ARGUMENT:
      return nb::borrow(PyExc_ValueError);
    case SLUICE_NOT_FOUND:
      return nb::borrow(PyExc_FileNotFoundError);
    case SLUICE_IO:
      return nb::borrow(PyExc_OSError);
    case SLUICE_UNSUPPORTED:
      return nb::borrow(PyExc_NotImplementedError);
    case SLUICE_OUT_OF_MEMORY:
      return nb::borrow(PyExc_MemoryError);
    case SLUICE_DEVICE:
      return own_type(kDeviceError);
    case SLUICE_DEVICE_LOST:
      return own_type(kDeviceLost);
    default:
      return own_type(kError);
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  const nb::object error =
      add(module, kError, "Sluice could not do what was asked.", PyExc_RuntimeError);
  const nb::object device =
      add(module, kDeviceError, "A device, driver or library is missing or failed.", error);
  add(module, kDeviceLost, "The GPU failed for good: restart the process.", device);
}

void set_error(sluice_status status, const char* message) {
  PyErr_SetString(type_for(status).ptr(), message);
}

void check(sluice_status status, const sluice_error& error) {
  if (status == SLUICE_OK) return;
  set_error(status, error.message);
  nb::raise_python_error();
}

}  // namespace sluice::python
