#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kernels/recurrent/cpu/leaf.h"
#include "kernels/recurrent/cpu/sequence_layout.h"
#include "kernels/recurrent/cpu/spin_barrier.h"
#include "kernels/recurrent/recurrent.h"

/// The time loop on the CPU, written once: it drives whatever leaf it is given.
///
/// Forward: for a chunk of steps the input product is computed at once, then the steps run on it.
/// Backward: the steps run from the end and store gate gradients; then the input's and the weights'
/// gradients are products over all time. One parallel region a pass; team.h says who does what.
namespace sluice::kernels::recurrent::cpu {

/// All that runs need; shared with queued work, so that a plan may go before its work is done.
template <typename T>
struct Sequence {
  Descriptor descriptor;
  Sizes sizes;                     ///< with the widest output
  std::vector<Sizes> layer_sizes;  ///< with each layer's own
  const Leaf<T>* leaf;
  int threads;            ///< at most so many
  std::int64_t own_rows;  ///< of a group of threads, at least
  PackedLayout packed;
  ReserveLayout reserve;
  WorkspaceLayout workspace;
  std::unique_ptr<SpinBarrier[]> barriers;  ///< `threads`, one a group

  const Sizes& sizes_of(std::int64_t layer) const {
    return layer_sizes[static_cast<std::size_t>(layer)];
  }
};

template <typename T>
void run_pack(const Sequence<T>& sequence, const std::vector<LayerWeights>& weights,
              const Memory& memory);
template <typename T>
void run_forward(const Sequence<T>& sequence, const ForwardArgs& args, const Memory& memory,
                 runtime::Profiler* profiler);
template <typename T>
void run_backward(const Sequence<T>& sequence, const BackwardArgs& args, const Memory& memory,
                  runtime::Profiler* profiler);

/// The plan over one leaf, which must live as long. Uses at most as many threads as OpenMP offers
/// now. On the portable leaf every output but weight gradients has the same bits for a row alone
/// and in any batch; on every leaf all outputs have the same bits for any number of threads.
template <typename T>
std::unique_ptr<Plan> make_sequence(const Descriptor& descriptor, std::string_view name,
                                    const Leaf<T>& leaf);

}  // namespace sluice::kernels::recurrent::cpu
