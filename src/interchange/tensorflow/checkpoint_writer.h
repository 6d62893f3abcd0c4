#pragma once

#include <filesystem>

#include "interchange/source_model.h"

namespace sluice::interchange {

/// Writes a chain as a checkpoint of TensorFlow (V2), `<prefix>.index` and
/// `<prefix>.data-00000-of-00001`: `embedding`, the cells under their names in TensorFlow 1,
/// `output/kernel` and `output/bias`. forget_bias is 0 in all of them.
///
/// A checkpoint holds numbers alone: the caller's program makes the graph. Throws
/// ErrorCode::kUnsupported for layers and activations that variables cannot say.
void write_tensorflow_checkpoint(const SourceModel& model, const std::filesystem::path& prefix);

}  // namespace sluice::interchange
