#pragma once

#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/persistent/extra_arguments.h"
#include "kernels/recurrent/cuda/persistent/rnn_arguments.h"

/// The arguments of launches that keep a layer in a cluster (persistent/), from those of plain
/// cells, for cells with more beside their equations and for plain RNNs.
namespace sluice::kernels::recurrent::cuda {

persistent::LayerForwardWithExtras with_extras(const Run& run, std::int64_t layer,
                                               const persistent::LayerForward& plain);
persistent::LayerBackwardWithExtras with_extras(const Run& run, std::int64_t layer,
                                                const persistent::LayerBackward& plain);

persistent::LayerForwardWithNorm with_norm(const Run& run, std::int64_t layer,
                                           const persistent::LayerForward& plain);
persistent::LayerBackwardWithNorm with_norm(const Run& run, std::int64_t layer,
                                            const persistent::LayerBackward& plain);

persistent::RnnForwardArgs of_rnn(const Run& run, const persistent::LayerForward& plain);
persistent::RnnBackwardArgs of_rnn(const Run& run, const persistent::LayerBackward& plain);

}  // namespace sluice::kernels::recurrent::cuda
