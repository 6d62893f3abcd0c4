#pragma once

#include <functional>
#include <utility>

#include "runtime/device.h"

namespace sluice::runtime {

/// Whether the stream runs what it is given before `launch` returns, as those of the CPU do.
bool runs_at_once(const Stream& stream);

/// Stream::launch for the operations of a single small step. A std::function takes memory for its
/// captures at every call; a stream that runs at once has no need of one.
template <typename Kernel>
void launch(Stream& stream, Kernel&& kernel) {
  if (runs_at_once(stream)) return std::forward<Kernel>(kernel)();
  stream.launch(std::function<void()>(std::forward<Kernel>(kernel)));
}

}  // namespace sluice::runtime
