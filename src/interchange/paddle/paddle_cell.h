#pragma once

#include <cstdint>
#include <string>

#include "interchange/account.h"
#include "interchange/paddle/paddle_parameters.h"
#include "interchange/paddle/paddle_values.h"

namespace sluice::interchange::paddle {

/// The matrix [in, out] of a fully connected layer, whose rows are in the order of ordered_input().
io::HostTensor weight_of(const Nodes& nodes, const Linear& linear, Parameters& parameters);
/// The bias [out], if the layer has one.
std::optional<io::HostTensor> bias_of(const Linear& linear, std::int64_t out,
                                      Parameters& parameters);
/// What the layer reads; of two directions the forward one comes first.
Features ordered_input(const Nodes& nodes, const Linear& linear);

/// The cell of an operation gru or lstm, with the fully connected layer before it. Tells `account`
/// what the attributes say.
SourceCell cell_of(const Nodes& nodes, const Node::Recurrence& recurrence, Parameters& parameters,
                   Account& account);

}  // namespace sluice::interchange::paddle
