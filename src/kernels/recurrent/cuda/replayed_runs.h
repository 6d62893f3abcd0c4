#pragma once

#include <cstdint>
#include <functional>

#include "kernels/recurrent/recurrent.h"
#include "runtime/graph_cache.h"

namespace sluice::kernels::recurrent::cuda {

/// A plan's runs as CUDA graphs, each captured when its arguments and memory come for the second
/// time. `queue` queues a run of what it is given on the context's stream; of a graph without
/// `overlap_work`, which would be queued once more each time. Whoever captures a whole step gets
/// the operations themselves.
class ReplayedRuns {
 public:
  void forward(const Context& context, const ForwardArgs& args, const Memory& memory,
               const std::function<void(const ForwardArgs&)>& queue);
  void backward(const Context& context, const BackwardArgs& args, const Memory& memory,
                const std::function<void(const BackwardArgs&)>& queue);

 private:
  /// Whoever runs a plan on fresh addresses each time gains nothing from graphs; who turns a few
  /// sets of buffers does.
  static constexpr std::size_t kMostGraphs = 64;
  runtime::GraphCache graphs_{kMostGraphs};

  template <typename Args>
  void run(const Context& context, const Args& args, const Memory& memory, std::int64_t pass,
           const std::function<void(const Args&)>& queue);
};

}  // namespace sluice::kernels::recurrent::cuda
