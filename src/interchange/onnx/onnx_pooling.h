#pragma once

#include <string>
#include <string_view>

#include "io/formats/onnx/onnx_file.h"

/// Pooling over time with the lengths of rows. ONNX has no operator for it, so files that Sluice
/// writes hold functions of the domain "sluice", made of ONNX's operators.
namespace sluice::interchange::onnx {

inline constexpr std::string_view kPoolingDomain = "sluice";
inline constexpr std::int64_t kWrittenOpset = 17;

/// "MeanOfRows", "MaxOfRows", "AttentionOfRows" for "mean", "max" and "attention" of rows with
/// lengths, and "Attention" for rows of one length.
std::string pooling_operator(std::string_view kind, bool has_lengths);
/// "mean", "max" or "attention"; empty for another operator.
std::string_view pooling_kind(std::string_view op_type);

/// The function of an operator: inputs x [time, batch, features], query [features] (of attention),
/// lengths [batch] (of rows; int32, each at least 1), output y [batch, features].
io::formats::OnnxFunction pooling_function(std::string_view op_type);

/// Throws ErrorCode::kUnsupported for a function of the domain that is another than ours.
void check_pooling_functions(const io::formats::OnnxModel& model);

}  // namespace sluice::interchange::onnx
