#pragma once

#include <filesystem>

#include "interchange/source_model.h"
#include "io/formats/tensorflow/graph_def.h"

namespace sluice::interchange {

/// Writes a chain as a frozen graph (.pb), which TensorFlow 1.15 and 2 import and run. The node
/// `input` is [time, batch, features], or ids (int32) [time, batch]; all sequences of a batch have
/// all its steps. The node `output` is [time, batch, features], or [batch, features] behind a
/// pooling. Throws ErrorCode::kUnsupported for what is not written.
void write_frozen_graph(const SourceModel& model, const std::filesystem::path& path);

/// Writes the same graph as a SavedModel: `<folder>/saved_model.pb` with the tag `serve` and the
/// signature `serving_default`, from `input` to `output`. The folder is made if it is not there.
void write_saved_model_folder(const SourceModel& model, const std::filesystem::path& folder);

namespace tensorflow {

io::formats::GraphDef graph_of(const SourceModel& model);

}  // namespace tensorflow
}  // namespace sluice::interchange
