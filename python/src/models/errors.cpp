#include "errors.h"

#include <sluice/error.h>

#include "../errors.h"

namespace sluice::python {
namespace {

// The codes of C are those of C++ and one more, for success.
sluice_status status_of(ErrorCode code) {
  static_assert(static_cast<int>(ErrorCode::kInvalidArgument) + 1 == SLUICE_INVALID_ARGUMENT);
  static_assert(static_cast<int>(ErrorCode::kDeviceLost) + 1 == SLUICE_DEVICE_LOST);
  return static_cast<sluice_status>(static_cast<int>(code) + 1);
}

}  // namespace

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      set_error(status_of(error.code()), error.what());
    }
  });
}

}  // namespace sluice::python
