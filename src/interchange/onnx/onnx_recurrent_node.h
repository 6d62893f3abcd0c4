#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "interchange/onnx/onnx_value.h"

namespace sluice::interchange::onnx {

/// Input `index` of a node if it is a constant; empty if the node has no such input. Throws
/// ErrorCode::kUnsupported for anything else.
using ConstantInput = std::function<std::optional<Constant>(std::size_t index)>;

/// The layer that a node LSTM, GRU or RNN is: its weights and attributes. Throws
/// ErrorCode::kUnsupported for a clip, for input_forget, and for activations with values that
/// cannot be told apart.
RecurrentLayer read_recurrent_node(const io::formats::OnnxNode& node, const ConstantInput& input,
                                   const std::filesystem::path& model);

/// "lstm_1: an LSTM, forward, gates in ONNX's order i o f c, ...", for the account.
std::string account_of(const io::formats::OnnxNode& node, const RecurrentLayer& layer);

}  // namespace sluice::interchange::onnx
