#pragma once

#include <string>
#include <vector>

#include "interchange/tensorflow/graph_builder.h"
#include "interchange/tensorflow/written_cells.h"
#include "io/formats/tensorflow/graph_def.h"

namespace sluice::interchange::tensorflow {

/// Adds a direction of a recurrent layer to a graph: what acts on the input is one product for all
/// steps, and a StatelessWhile runs the rest, a function of the library for each step. `x` and the
/// result are [time, batch, width]; the first step is taken first. The constants bear the names of
/// variables, read through `NAME/read` as in a frozen graph.
GraphBuilder::Value add_recurrent(GraphBuilder& graph,
                                  std::vector<io::formats::GraphFunction>& functions,
                                  const WrittenCell& cell, const GraphBuilder::Value& x);

/// Adds a constant and its Identity `NAME/read`.
GraphBuilder::Value add_variable(GraphBuilder& graph, const std::string& name,
                                 const io::HostTensor& tensor);

/// "linear", "tanh", "sigmoid", "relu", "hard_sigmoid", "softmax", "log_softmax". Throws
/// ErrorCode::kUnsupported for others.
GraphBuilder::Value add_activation(GraphBuilder& graph, const Activation& activation,
                                   const GraphBuilder::Value& x);

}  // namespace sluice::interchange::tensorflow
