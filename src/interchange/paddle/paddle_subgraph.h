#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "interchange/paddle/paddle_parameters.h"
#include "interchange/source_model.h"
#include "io/formats/paddle/paddle_program.h"

namespace sluice::interchange::paddle {

/// The layers of the operations gru and lstm: "gru_0".
std::vector<std::string> recurrent_layers(const io::formats::PaddleBlock& block);

/// Gives `model` the recurrent layer that `name` names, and those that directly follow it. Throws
/// ErrorCode::kNotFound if there is none.
void read_subgraph(const io::formats::PaddleBlock& block, std::string_view name,
                   Parameters& parameters, SourceModel& model);

}  // namespace sluice::interchange::paddle
