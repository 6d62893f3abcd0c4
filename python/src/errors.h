#pragma once

#include <nanobind/nanobind.h>
#include <sluice.h>

namespace sluice::python {

namespace nb = nanobind;

/// Adds Error, DeviceError and DeviceLost to the module.
void bind_errors(nb::module_& module);

/// Sets the Python exception that fits. Needs the GIL.
void set_error(sluice_status status, const char* message);

/// Raises the Python exception that fits; returns if the status is SLUICE_OK. Needs the GIL.
void check(sluice_status status, const sluice_error& error);

}  // namespace sluice::python
