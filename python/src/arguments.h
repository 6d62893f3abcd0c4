#pragma once

#include <nanobind/nanobind.h>

namespace sluice::python {

namespace nb = nanobind;

/// Binds the structs of sluice.h that a run is given: pointers are integers, 0 for none.
void bind_arguments(nb::module_& module);

}  // namespace sluice::python
