#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "interchange/onnx/onnx_budget.h"
#include "interchange/onnx/onnx_value.h"

namespace sluice::interchange::onnx {

/// Whether a Cast is to integers or bools.
bool casts_to_integers(const io::formats::OnnxNode& node);

/// The output of a node whose inputs are constants: Identity, Cast, Transpose, Unsqueeze, Squeeze,
/// Reshape, Slice and Concat. Exporters put them between the stored weights and a recurrent node.
/// `inputs` has an empty one for each input that is left out. Empty: another operator, or a case
/// that is not computed. The budget bounds the memory that it takes.
std::optional<Constant> fold(const io::formats::OnnxNode& node,
                             const std::vector<std::optional<Constant>>& inputs,
                             const std::filesystem::path& model, Budget& budget);

/// The axes of a node, an attribute or its input `index`; an input must be a constant. Empty if
/// there are none.
std::optional<std::vector<std::int64_t>> axes_of(const io::formats::OnnxNode& node,
                                                 const std::optional<Constant>& input,
                                                 const std::filesystem::path& model);
/// An axis from 0 on; throws ErrorCode::kFormat if `rank` axes lack it.
std::size_t checked_axis(const io::formats::OnnxNode& node, std::int64_t axis, std::size_t rank);

}  // namespace sluice::interchange::onnx
