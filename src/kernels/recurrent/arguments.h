#pragma once

#include <vector>

#include "kernels/recurrent/recurrent.h"

/// What every implementation refuses before it queues anything: wrong extents, shapes, dtypes or
/// strides. Errors are ErrorCode::kInvalidArgument and name the tensor.
namespace sluice::kernels::recurrent {

/// For an implementation of plain cells: the reason why it declines others, or nothing.
std::optional<std::string> refuse_extras(const Descriptor& descriptor);
/// For an implementation of the LSTM and the GRU that resets after the product: likewise.
std::optional<std::string> refuse_unusual_cell(const Descriptor& descriptor);

void check_memory(const Plan& plan, const Memory& memory);
void check_weights(const Descriptor& descriptor, const std::vector<LayerWeights>& weights);
void check_forward(const Descriptor& descriptor, const ForwardArgs& args);
void check_backward(const Descriptor& descriptor, const BackwardArgs& args);

}  // namespace sluice::kernels::recurrent
