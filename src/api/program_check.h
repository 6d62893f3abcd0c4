#pragma once

#include "sluice/convert.h"

namespace sluice::api {

/// Has the program that ConvertRequest::verify_with names run the source, by the Python package
/// (python/sluice/_verify_with.py) in the interpreter $SLUICE_PYTHON or python3. Returns the
/// largest difference from the converted model. Throws ErrorCode::kNumeric if outputs differ by
/// more than rounding or if the program can't run the source; it has said why on standard error.
double check_with_program(const ConvertRequest& request);

}  // namespace sluice::api
