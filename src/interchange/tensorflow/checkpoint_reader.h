#pragma once

#include <filesystem>

#include "interchange/read_options.h"
#include "interchange/source_model.h"

namespace sluice::interchange {

/// Reads a checkpoint of TensorFlow 1 (V1 or V2; `path` as io::formats::TensorflowCheckpoint::open)
/// by the names of its variables: an embedding, recurrent cells, a dense layer.
///
/// A checkpoint does not hold forget_bias (the answer `forget_bias`), the activation of a plain RNN
/// (`activation`), the sizes of a flat buffer of cuDNN (`opaque_layers` and others), or directions
/// and orders of scopes that their names do not say (`backward`, `order`). Users' names are given
/// with `lstm`, `rnn`, `embedding`, `output` and `output_bias`. Variables that nothing explains are
/// refused unless `ignore` lists them. `options.subgraph` is a scope, whose recurrent cells are
/// taken alone.
SourceModel read_tensorflow_checkpoint(const std::filesystem::path& path,
                                       const ReadOptions& options);

}  // namespace sluice::interchange
