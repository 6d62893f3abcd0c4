#include "errors.h"

namespace sluice::python {
namespace {

/// One for the process, as is the module (nanobind refuses subinterpreters).
struct Errors {
  PyObject *error = nullptr, *device = nullptr, *lost = nullptr;
};
Errors errors;

PyObject* add(nb::module_& module, const char* name, const char* doc, PyObject* base) {
  const std::string qualified = std::string("sluice.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, nullptr);
  if (type == nullptr) nb::raise_python_error();
  module.attr(name) = nb::handle(type);
  return type;  // The reference is kept for good.
}

PyObject* type_for(sluice_status status) {
  switch (status) {
    case SLUICE_INVALID_ARGUMENT:
      return PyExc_ValueError;
    case SLUICE_UNSUPPORTED:
      return PyExc_NotImplementedError;
    case SLUICE_OUT_OF_MEMORY:
      return PyExc_MemoryError;
    case SLUICE_DEVICE:
      return errors.device;
    case SLUICE_DEVICE_LOST:
      return errors.lost;
    default:
      return errors.error;
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  errors.error = add(module, "Error", "Sluice could not do what was asked.", PyExc_RuntimeError);
  errors.device =
      add(module, "DeviceError", "A device, driver or library is missing or failed.", errors.error);
  errors.lost =
      add(module, "DeviceLost", "The GPU failed for good: restart the process.", errors.device);
}

void check(sluice_status status, const sluice_error& error) {
  if (status == SLUICE_OK) return;
  PyErr_SetString(type_for(status), error.message);
  nb::raise_python_error();
}

}  // namespace sluice::python
