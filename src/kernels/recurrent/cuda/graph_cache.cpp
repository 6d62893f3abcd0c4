#include "kernels/recurrent/cuda/graph_cache.h"

#include <algorithm>

namespace sluice::kernels::recurrent::cuda {

void GraphCache::run(runtime::Stream& stream, const GraphKey& key,
                     const std::function<void()>& work) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) {
    entries_.push_front({key, nullptr});
    if (entries_.size() > kMost) entries_.pop_back();
    return work();
  }
  entries_.splice(entries_.begin(), entries_, found);
  if (!found->graph) found->graph = stream.capture(work);
  found->graph->launch(stream);
}

}  // namespace sluice::kernels::recurrent::cuda
