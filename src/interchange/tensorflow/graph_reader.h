#pragma once

#include <filesystem>

#include "interchange/read_options.h"
#include "interchange/source_model.h"

namespace sluice::interchange {

/// Reads a frozen graph (.pb) or a SavedModel (its folder, or saved_model.pb) of TensorFlow 1.
/// Constants and variables are taken by their names, as read_tensorflow_checkpoint() does, with the
/// same answers. The operations behind a kernel say forget_bias, activations, and backward
/// directions of fused cells, so that they need not be asked for. The order of the other operations
/// is not followed.
SourceModel read_tensorflow_graph(const std::filesystem::path& path, const ReadOptions& options);

}  // namespace sluice::interchange
