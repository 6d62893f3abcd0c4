#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "interchange/account.h"
#include "interchange/read_options.h"
#include "interchange/source_model.h"
#include "interchange/tensorflow/variables.h"

namespace sluice::interchange::tensorflow {

/// What a graph says of cells and a checkpoint does not.
struct GraphFacts {
  /// The forget_bias of cells, by the scope of their kernel.
  std::map<std::string, double, std::less<>> forget_bias = {};
  /// The activations of plain RNNs, by scope.
  std::map<std::string, std::string, std::less<>> activation = {};
};

/// A cell and the scope of its variables.
struct FoundCell {
  std::string scope;
  SourceCell cell = {};
};

/// Takes all recurrent cells, in the order of names. A cell is known by the name that TensorFlow
/// gives its scope, or by the answers `lstm`, `rnn` (lists of scopes). Throws
/// ErrorCode::kUnsupported for kinds of cells that Sluice lacks, by their names, and
/// kInvalidArgument if forget_bias must be asked for.
std::vector<FoundCell> find_cells(Variables& variables, const ReadOptions& options,
                                  const GraphFacts& facts, Account& account);

}  // namespace sluice::interchange::tensorflow
