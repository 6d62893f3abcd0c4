#pragma once

#include <optional>

#include "profiling/session.h"

namespace sluice::api {

/// A profile of all calls of one model, from `begin` to `finish`. Its context must outlive it.
class Recording {
 public:
  /// Throws as profiling::Session, and ErrorCode::kInvalidArgument if it has begun already.
  void begin(runtime::Context& context, const ProfileRequest& request);
  /// Writes the trace and prints the table. Does nothing unless it has begun.
  void finish();

 private:
  std::optional<profiling::Session> session_;
};

}  // namespace sluice::api
