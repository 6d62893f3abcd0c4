#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"

/// Parameters in fewer bits than float32 in a checkpoint: docs/quantization.md, docs/checkpoint.md.
namespace sluice::model_files {

/// "output.weight.scale": of the float32 tensor [rows] that goes with int8 weights [rows, columns].
std::string scale_name(std::string_view parameter);

/// int8 where a parameter is, else bfloat16 where one is, else float32.
io::DType stored_dtype(const io::Container& container);

/// Throws ErrorCode::kFormat unless the container has the parameter, in float32, bfloat16, or int8
/// with scales, in that shape.
void require_stored(const io::Container& container, std::string_view name, const io::Shape& shape);

/// A parameter's values in float32, whatever it is stored in; int8 times the scale of its row.
/// Throws as require_stored, and for -128, which no side of a symmetric scale has, or a scale that
/// is negative or not finite.
std::vector<float> stored_values(const io::Container& container, std::string_view name,
                                 const io::Shape& shape);

/// Adds a parameter to the container in that dtype. int8 is for matrices: row r becomes integers
/// from -127 to 127 times `clip` * (its largest magnitude) / 127; what lies beyond becomes 127.
void add_stored(io::Container& container, const std::string& name, const io::Shape& shape,
                std::span<const float> values, io::DType dtype, double clip = 1);

}  // namespace sluice::model_files
