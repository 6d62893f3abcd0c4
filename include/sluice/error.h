#pragma once

#include <stdexcept>
#include <string>

namespace sluice {

/// What kind of thing went wrong, for callers that react differently to each.
enum class ErrorCode {
  kInvalidArgument,  ///< a value, option or shape that the call cannot accept
  kNotFound,         ///< a file, tensor or key that is not there
  kIo,               ///< the operating system refused to read or write (full disk, permissions)
  kFormat,           ///< a file's content is damaged, malformed or of a newer revision
  kUnsupported,      ///< valid, but no implementation here can do it
  kOutOfMemory,      ///< memory, or a place in a queue, was refused; the process stays usable
  kDevice,           ///< a device, driver or library for it is missing or failed
  kNumeric,          ///< the computation diverged (NaN or infinite loss)
  kInternal,         ///< an invariant of Sluice itself was broken: a bug
  /// A kernel or the hardware failed in a way that CUDA does not recover from: every later call to
  /// the GPU in this process fails likewise. Restart the process; files are whole, and training
  /// goes on from its last checkpoint.
  kDeviceLost,
};

/// The one exception type Sluice throws. `what()` is one clear sentence: what, where, what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace sluice
