#pragma once

#include <nanobind/ndarray.h>

namespace sluice::python {

namespace nb = nanobind;

/// float32 [time, width] on the host, without gaps: to read, and to be filled.
using FrameArray = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using AnswerArray = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
/// [time], not 0 where an episode begins.
using ResetArray = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

}  // namespace sluice::python
