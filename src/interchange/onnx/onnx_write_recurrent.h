#pragma once

#include <string>

#include "interchange/onnx/onnx_writer.h"
#include "interchange/source_model.h"
#include "io/formats/onnx/onnx_file.h"

namespace sluice::interchange::onnx {

/// Values that a recurrent layer reads and makes; an empty name is one that is left out.
struct RecurrentValues {
  std::string input, lengths, h0, c0;  ///< read
  std::string output, last, hn, cn;    ///< made; `last` is [batch, features]
};

/// Adds a recurrent layer to a graph: one node, or two if the directions differ in size. `prefix`
/// begins the names of its tensors.
void write_recurrent(io::formats::OnnxGraph& graph, const RecurrentLayer& layer,
                     const std::string& prefix, const RecurrentValues& values);

}  // namespace sluice::interchange::onnx
