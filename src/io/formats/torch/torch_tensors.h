#pragma once

#include <string>
#include <string_view>

#include "io/formats/pickle/pickle.h"
#include "io/formats/torch/torch_tree.h"

namespace sluice::io::formats {

/// Whether a value is a call that makes a tensor, read or refused.
bool is_torch_tensor(const PickleValue& value);
/// The tensor that the call makes, without its name. Throws ErrorCode::kFormat if it is malformed.
TorchTensor torch_tensor(const PickleValue& value, std::string_view where);

}  // namespace sluice::io::formats
