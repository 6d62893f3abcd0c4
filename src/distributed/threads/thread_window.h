#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "distributed/threads/meeting.h"
#include "distributed/window.h"

namespace sluice::distributed::threads {

/// The memory and the numbers of a window.
struct Shared {
  Shared(std::int64_t ranks, std::size_t bytes, std::size_t count)
      : memory(static_cast<std::size_t>(ranks), std::vector<std::byte>(bytes)), numbers(count) {}

  std::vector<std::vector<std::byte>> memory;
  std::vector<std::atomic<std::int64_t>> numbers;
};

/// A rank's way into a window whose memory lies in this process. `locks` are those of all ranks.
std::unique_ptr<Window> make_window(std::shared_ptr<Locks> locks, std::shared_ptr<Shared> shared);

}  // namespace sluice::distributed::threads
