#pragma once

#include <nanobind/nanobind.h>

namespace sluice::python {

/// Has what the C++ API throws become the exceptions that sluice._native raises.
void translate_errors();

}  // namespace sluice::python
