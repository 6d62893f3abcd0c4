#pragma once

#include <filesystem>

#include "interchange/read_options.h"
#include "interchange/source_model.h"

namespace sluice::interchange {

/// Reads a model for inference of Paddle 1 (fluid.io.save_inference_model): a folder with the
/// program, "__model__", and the parameters, in a file for each or in one file.
///
/// It follows the operations from a feed of ids or of sequences [steps, features] to a fetch. It
/// reads lookup_table, mul and fc with elementwise_add and sum, gru, lstm, the concat of two
/// directions, sequence_pool, softmax and other activations of a linear layer, dropout, scale and
/// crf_decoding. Two directions are one layer if they read the same.
///
/// Answers that it asks for: "output", the variable that the chain ends at (the first fetch), and
/// "params", the name of the file that has all parameters (the only file beside the program).
/// `options.subgraph` names a recurrent operation by its parameter, its output or its layer
/// ("gru_0", "gru_0+gru_1"). That layer, with its other direction, is taken, and those that
/// directly follow it, without anything else.
///
/// Throws ErrorCode::kUnsupported, naming the operation, for a program that is no such chain.
SourceModel read_paddle(const std::filesystem::path& folder, const ReadOptions& options);

}  // namespace sluice::interchange
