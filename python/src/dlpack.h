#pragma once

#include <nanobind/nanobind.h>

namespace sluice::python {

namespace nb = nanobind;

/// Binds Tensor, which takes arrays of other frameworks, and export_dlpack, which gives them ours.
void bind_dlpack(nb::module_& module);

}  // namespace sluice::python
