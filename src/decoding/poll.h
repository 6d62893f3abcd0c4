#pragma once

#include <cstdint>

#include "runtime/context.h"

namespace sluice::decoding {

/// Looks now and then whether a search is done.
class Poll {
 public:
  /// `every` steps; 0: each where the host runs the kernels, else every eighth. `search` names the
  /// look's span.
  Poll(const runtime::Context& context, std::int64_t every, const char* search);

  std::int64_t every() const { return every_; }

  /// When `taken` steps have become `now`: whether it was time for a look meanwhile, which waits
  /// for the device, and `unfinished` (int32 [1]) was 0.
  bool is_done(std::int64_t taken, std::int64_t now, const runtime::Tensor& unfinished) const;

 private:
  const runtime::Context& context_;
  std::int64_t every_;
  const char* search_;
};

}  // namespace sluice::decoding
