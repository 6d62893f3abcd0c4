#pragma once

#include <filesystem>

#include "interchange/read_options.h"
#include "interchange/source_model.h"

namespace sluice::interchange {

/// Reads a recurrent model of ONNX: a chain from one graph input to one graph output.
///
/// It walks the graph and tracks the meaning of every axis (time, batch, direction, features), so
/// that a transpose or reshape that mixes them is refused. It reads LSTM, GRU and RNN; Gather from
/// a table of embeddings; MatMul, Gemm and Add; BatchNormalization; activations of a linear layer;
/// the final step and the mean and maximum over time; and the nodes that only move axes.
///
/// Answers that it asks for: "output", the graph output that the chain ends at (the first).
/// `options.subgraph` names a recurrent node (or its first output), also one in a branch, a loop or
/// a function. That node is taken, and those that directly follow it, without anything else. A node
/// in a branch has the path "if_node/then_branch/lstm", for names that are not unique.
///
/// Throws ErrorCode::kUnsupported, naming the node, for a graph that is no such chain.
SourceModel read_onnx_model(const std::filesystem::path& path, const ReadOptions& options);

}  // namespace sluice::interchange
