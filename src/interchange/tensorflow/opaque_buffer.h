#pragma once

#include <vector>

#include "interchange/account.h"
#include "interchange/read_options.h"
#include "interchange/tensorflow/cell_finder.h"
#include "interchange/tensorflow/variables.h"

namespace sluice::interchange::tensorflow {

/// Takes the flat buffers of CudnnLSTM and CudnnGRU (`opaque_kernel`) apart, in the layout of
/// cuDNN's standard algorithm: the matrices of all layers, then their biases. Within a layer:
/// forward direction, backward direction; within a direction: what acts on the input, gate by gate
/// (i f c o or r z h), then what acts on the state. The answers `opaque_layers`, `opaque_hidden`,
/// `opaque_input` and `opaque_directions` say the sizes, which must give the size of the buffer.
/// The cells are in PyTorch's convention; their scopes end like those of bidirectional_rnn.
std::vector<FoundCell> split_opaque_buffers(Variables& variables, const ReadOptions& options,
                                            Account& account);

}  // namespace sluice::interchange::tensorflow
