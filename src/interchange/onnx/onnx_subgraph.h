#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "interchange/onnx/onnx_walk.h"

namespace sluice::interchange::onnx {

/// The recurrent nodes of a model by their paths, such as "if_node/then_branch/lstm"; at most 200.
std::vector<std::string> recurrent_nodes(const io::formats::OnnxModel& model);

/// The recurrent layer of the node of that name or path, with those that directly follow it.
/// Throws ErrorCode::kNotFound if there is none, and kInvalidArgument if there are several.
StepPointer read_subgraph(const io::formats::OnnxModel& model, std::string_view name,
                          Account& account);

}  // namespace sluice::interchange::onnx
