#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "interchange/account.h"
#include "interchange/read_options.h"
#include "interchange/source_model.h"
#include "interchange/tensorflow/graph_facts.h"
#include "interchange/tensorflow/variables.h"

namespace sluice::interchange::tensorflow {

/// A cell and the scope of its variables.
struct FoundCell {
  std::string scope;
  bool is_backward = false;  ///< the graph says so
  SourceCell cell = {};
};

/// Takes all recurrent cells, in the order of names. A cell is known by the name that TensorFlow
/// gives its scope, or by the answers `lstm`, `rnn` (lists of scopes). Throws
/// ErrorCode::kUnsupported for kinds of cells that Sluice lacks, by their names, and
/// kInvalidArgument if forget_bias must be asked for.
std::vector<FoundCell> find_cells(Variables& variables, const ReadOptions& options,
                                  const GraphFacts& facts, Account& account);

}  // namespace sluice::interchange::tensorflow
