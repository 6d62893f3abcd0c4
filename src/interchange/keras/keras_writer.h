#pragma once

#include <filesystem>

#include "interchange/source_model.h"

namespace sluice::interchange {

/// Writes a chain with cells in Convention::kKeras as a Sequential model: a .keras file if the path
/// ends in ".keras", else an HDF5 file of a whole model. Keras 3 loads both, tf.keras 2 the latter.
///
/// A hard sigmoid is written with the slope of Keras 3, 1/6: weights and biases of the gates are
/// multiplied to give the same results. Both files say that they are of Keras 3; tf.keras 2 loads
/// the HDF5 file, but computes hard sigmoids with another slope.
///
/// Padding with the id 0 becomes mask_zero. With another padding id, Keras has no mask, so give it
/// rows without padding.
///
/// Throws ErrorCode::kUnsupported, naming the layer, for what a chain of Keras lacks: attention
/// pooling, "last" elsewhere than behind a recurrent layer, and a backward direction alone that
/// puts out all steps. Throws as OutputFile.
void write_keras(const SourceModel& model, const std::filesystem::path& path);

}  // namespace sluice::interchange
