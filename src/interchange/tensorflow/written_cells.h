#pragma once

#include <string>
#include <utility>
#include <vector>

#include "interchange/source_model.h"

namespace sluice::interchange::tensorflow {

/// A cell in a layout of TensorFlow 1, and the scope that TensorFlow gives its variables.
struct WrittenCell {
  std::string scope;
  SourceCell cell = {};
};

/// A recurrent layer as WrittenCells; a direction that the layer lacks has an empty scope.
struct WrittenLayer {
  WrittenCell forward = {}, backward = {};
};

/// The recurrent layers of a chain, of any convention, in order. LSTM layers without projection and
/// peepholes have the names of CudnnCompatibleLSTMCell. Layers that follow each other and have the
/// same kind of cells and directions share a stack. Throws ErrorCode::kUnsupported for what cells
/// of TensorFlow lack.
std::vector<WrittenLayer> written_layers(const SourceModel& model);

/// The names of the cell's variables, and its tensors.
std::vector<std::pair<std::string, const io::HostTensor*>> variables_of(const WrittenCell& cell);

}  // namespace sluice::interchange::tensorflow
