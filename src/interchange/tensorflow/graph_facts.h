#pragma once

#include <map>
#include <set>
#include <string>

#include "io/formats/tensorflow/graph_def.h"

namespace sluice::interchange::tensorflow {

/// What a graph says of cells and a checkpoint does not, by the names of kernels.
struct GraphFacts {
  std::map<std::string, double, std::less<>> forget_bias = {};
  /// "tanh", "relu" and others, lower case: of an LSTM's input, of a GRU's or a plain RNN's new
  /// state, of a dense layer.
  std::map<std::string, std::string, std::less<>> activation = {};
  /// Kernels of LSTM operations, whatever their names are.
  std::set<std::string, std::less<>> lstm = {};
  /// Those of BlockLSTMV2, whose gates stand in the order i f c o.
  std::set<std::string, std::less<>> lstm_v2 = {};
  /// Those whose input is reversed (TimeReversedFusedRNN).
  std::set<std::string, std::less<>> backward = {};
  /// Those that clip their cell state.
  std::set<std::string, std::less<>> clips = {};
};

/// Follows each kernel, a constant or a variable, to the operations that use it. Functions of the
/// graph's library are not followed.
GraphFacts facts_of(const io::formats::GraphDef& graph, const std::string& file);

/// The constants of numbers that the graph uses as variables: those read through an Identity, as a
/// frozen graph has them, and tables of which rows are gathered.
std::set<std::string> variable_constants(const io::formats::GraphDef& graph);

}  // namespace sluice::interchange::tensorflow
