#pragma once

#include "kernels/recurrent/cpu/leaf.h"

/// Every instruction set's leaf, one declaration an instruction set. Beside portable_leaf (leaf.h)
/// each returns null when this processor, or this storage type, has none.
namespace sluice::kernels::recurrent::cpu {}  // namespace sluice::kernels::recurrent::cpu
