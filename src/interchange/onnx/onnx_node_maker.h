#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/formats/onnx/onnx_file.h"

/// Nodes and attributes for graphs that Sluice writes.
namespace sluice::interchange::onnx {

io::formats::OnnxAttribute attribute(std::string name, std::int64_t value);
io::formats::OnnxAttribute attribute(std::string name, std::string value);
io::formats::OnnxAttribute attribute(std::string name, float value);
io::formats::OnnxAttribute attribute(std::string name, std::vector<std::int64_t> value);
io::formats::OnnxAttribute attribute(std::string name, std::vector<float> value);
io::formats::OnnxAttribute attribute(std::string name, std::vector<std::string> value);

/// A node named after its first output.
io::formats::OnnxNode node(std::string op_type, std::vector<std::string> inputs,
                           std::vector<std::string> outputs,
                           std::vector<io::formats::OnnxAttribute> attributes = {});

/// A constant vector of integers, a constant integer, and a constant number.
io::formats::OnnxNode integers(std::string output, std::vector<std::int64_t> values);
io::formats::OnnxNode integer(std::string output, std::int64_t value);
io::formats::OnnxNode number(std::string output, float value);

}  // namespace sluice::interchange::onnx
