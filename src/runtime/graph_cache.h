#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "runtime/device.h"

namespace sluice::runtime {

/// Everything that captured work holds on to: numbers and addresses.
using GraphKey = std::vector<std::uint64_t>;

inline std::uint64_t key_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

/// The graphs used last; the one that was not used for longest goes first. Work is captured when
/// its key comes for the second time: many never do (a batch of another extent, a plan made for one
/// call), and capturing costs as much as some runs. The first time also takes all that must not be
/// taken during a capture; if it throws, the next is the first.
class GraphCache {
 public:
  /// Keeps at most `capacity` graphs and keys.
  explicit GraphCache(std::size_t capacity) : capacity_(capacity) {}

  /// Launches the graph of that key, or does `work` itself if the key is new.
  void run(Stream& stream, const GraphKey& key, const std::function<void()>& work);

  /// Graphs that there are now.
  std::size_t graphs() const;

 private:
  struct Entry {
    GraphKey key;
    std::unique_ptr<Graph> graph;  ///< null until the second run
  };
  std::size_t capacity_;
  std::list<Entry> entries_;  ///< used last first
};

}  // namespace sluice::runtime
