#include <nanobind/nanobind.h>
#include <sluice.h>

#include <cstdint>

#include "arguments.h"
#include "device.h"
#include "dlpack.h"
#include "errors.h"
#include "plan.h"

namespace sluice::python {
namespace {

/// Where the bytes of an object with the buffer protocol begin: a tenth of the time that NumPy's
/// own attributes for it take.
std::uintptr_t address(nb::handle object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) nb::raise_python_error();
  const auto address = reinterpret_cast<std::uintptr_t>(view.buf);
  PyBuffer_Release(&view);
  return address;
}

}  // namespace
}  // namespace sluice::python

NB_MODULE(_native, module) {
  using namespace nanobind::literals;
  // torch keeps the operators of sluice.torch, and so what they use, until the process ends.
  nanobind::set_leak_warnings(false);
  module.doc() = "The functions of sluice.h. Pointers are integers, 0 for none, and unchecked.";
  module.attr("version") = sluice_version();
  sluice::python::bind_errors(module);
  sluice::python::bind_device(module);
  sluice::python::bind_dlpack(module);
  sluice::python::bind_arguments(module);
  sluice::python::bind_plan(module);
  module.def("address", sluice::python::address, "object"_a,
             "The address of a contiguous object with the buffer protocol.");
}
