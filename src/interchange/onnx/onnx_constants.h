#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/onnx/onnx_value.h"

namespace sluice::interchange::onnx {

/// "LSTM node 'lstm_1'", for messages; a node without a name goes by its first output.
std::string describe(const io::formats::OnnxNode& node);
std::string name_of(const io::formats::OnnxNode& node);
bool is_recurrent(const io::formats::OnnxNode& node);

/// The attributes of a node; `usual` stands for one that is absent. Throw ErrorCode::kFormat for
/// another kind, and kUnsupported for an attribute that a function's call gives.
std::int64_t int_of(const io::formats::OnnxNode& node, std::string_view name, std::int64_t usual);
float float_of(const io::formats::OnnxNode& node, std::string_view name, float usual);
std::string text_of(const io::formats::OnnxNode& node, std::string_view name,
                    std::string_view usual);
std::optional<std::vector<std::int64_t>> ints_of(const io::formats::OnnxNode& node,
                                                 std::string_view name);
std::vector<float> floats_of(const io::formats::OnnxNode& node, std::string_view name);
std::vector<std::string> texts_of(const io::formats::OnnxNode& node, std::string_view name);

/// The value of a node Constant; empty if its kind is not read.
std::optional<Constant> constant_of(const io::formats::OnnxNode& node);

std::vector<std::int64_t> sizes_of(const Constant& constant);
/// The numbers in their own type, from an external file too.
io::HostTensor load(const Constant& constant, const std::filesystem::path& model);
io::HostTensor load_float32(const Constant& constant, const std::filesystem::path& model);
/// The integers of a scalar or a short vector; empty for any other tensor.
std::optional<Numbers> integers_of(const Constant& constant, const std::filesystem::path& model);
bool is_all_zero(const Constant& constant, const std::filesystem::path& model);

}  // namespace sluice::interchange::onnx
