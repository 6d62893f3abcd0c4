#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "runtime/device.h"

namespace sluice::kernels::recurrent::cuda {

/// Everything that a captured run holds on to: numbers and addresses.
using GraphKey = std::vector<std::uint64_t>;

/// The graphs used last; the one that was not used for longest goes first. A run is captured when
/// its key comes for the second time: many never do (a batch of another extent, a plan made for one
/// call), and capturing costs as much as some runs.
class GraphCache {
 public:
  /// Launches the graph of that key, or does `work` itself if the key is new.
  void run(runtime::Stream& stream, const GraphKey& key, const std::function<void()>& work);

 private:
  /// Whoever runs a plan on fresh addresses each time gains nothing from graphs; who turns a few
  /// sets of buffers does.
  static constexpr std::size_t kMost = 64;

  struct Entry {
    GraphKey key;
    std::unique_ptr<runtime::Graph> graph;  ///< null until the second run
  };
  std::list<Entry> entries_;  ///< used last first
};

}  // namespace sluice::kernels::recurrent::cuda
