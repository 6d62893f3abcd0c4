#include "runtime/graph_cache.h"

#include <algorithm>

namespace sluice::runtime {

void GraphCache::run(Stream& stream, const GraphKey& key, const std::function<void()>& work) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) {
    work();
    entries_.push_front({key, nullptr});
    if (entries_.size() > capacity_) entries_.pop_back();
    return;
  }
  entries_.splice(entries_.begin(), entries_, found);
  if (!found->graph) found->graph = stream.capture(work);
  found->graph->launch(stream);
}

std::size_t GraphCache::graphs() const {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.graph != nullptr; }));
}

}  // namespace sluice::runtime
