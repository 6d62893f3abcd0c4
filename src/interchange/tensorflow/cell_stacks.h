#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/source_model.h"
#include "interchange/tensorflow/cell_finder.h"

namespace sluice::interchange::tensorflow {

/// Layers that one call of TensorFlow runs: those of a MultiRNNCell, or a single one.
struct Stack {
  std::string name;  ///< the scope that the layers share, without `fw` and `bw`
  /// Each direction has a stack of its own: a layer reads the output of its direction alone.
  bool is_apart = false;
  std::map<int, SourceCell> forward = {}, backward = {};  ///< by the number of the layer

  std::int64_t input() const {
    return (forward.empty() ? backward : forward).begin()->second.input;
  }
  std::int64_t output() const;
};

/// Sorts cells into stacks by their scopes.
std::vector<Stack> stacks_of(std::vector<FoundCell> cells, std::string_view file);

/// The layers of a stack. Throws ErrorCode::kFormat for a layer that is missing and for widths that
/// do not fit.
std::vector<RecurrentLayer> layers_of(Stack stack, std::string_view file);

/// The cell with an input that has `before` more features before its own, and `after` behind them,
/// which it ignores.
SourceCell widened(const SourceCell& cell, std::int64_t before, std::int64_t after);

}  // namespace sluice::interchange::tensorflow
