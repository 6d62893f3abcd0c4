#pragma once

#include <string>
#include <string_view>

namespace sluice::bench {

/// The name of a type that whole models compute in, of what a shape file or --dtype may say
/// ("bf16"). Throws ErrorCode::kInvalidArgument.
std::string parse_model_type(std::string_view text);

}  // namespace sluice::bench
