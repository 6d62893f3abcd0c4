#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "io/formats/onnx/onnx_file.h"
#include "io/formats/proto_reader.h"

namespace sluice::io::formats {

/// Reads an entry of ONNX's lists of pairs of strings; refuses an empty key.
std::pair<std::string, std::string> read_onnx_pair(ProtoReader reader);

/// The tensors of field `field` of the reader's message. Memory: at most 48 times their bytes.
std::vector<OnnxTensor> read_onnx_tensors(ProtoReader reader, std::uint32_t field);

}  // namespace sluice::io::formats
