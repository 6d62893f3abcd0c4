#pragma once

#include <array>

#include "kernels/recurrent/recurrent.h"

/// The kernels that are compiled, a source file each storage (instance.cu.in).
namespace sluice::kernels::recurrent::cuda::projected {

/// Of (Stack), with tiles of 1, 2, 4 and 8 octets of rows.
using Kernels = std::array<const void*, 4>;

/// Those of a storage (bfloat16 or float16).
const Kernels& kernels_of(DType storage);

}  // namespace sluice::kernels::recurrent::cuda::projected
