#pragma once

#include <string>

#include "bench/host_numbers.h"
#include "bench/shape_file.h"

namespace sluice::bench::sweep {

/// A shape and the pass that it is to run.
struct DrawnShape {
  BenchShape shape;
  Pass pass = Pass::kForward;
};

/// Shape number `index` (from 1) of the sweep with this seed, on a kind of device ("cuda:0",
/// "cpu"). It depends on nothing else, so a shape is drawn anew by its name, `sSEED_INDEX`.
///
/// Log-uniform: time 1..1024, rows 1..512, hidden 1..2048, layers 1..4. The input is as wide as
/// hidden for half of the shapes, else log-uniform 1..2048. Two widths of three are rounded to
/// multiples of 8. Half of the shapes are LSTMs, a third GRUs, the others plain RNNs. A fifth of
/// the LSTMs project, a quarter of the shapes have two directions, a sixth rows of different
/// lengths, half a backward pass. Types are equally likely: float32, tf32, bfloat16 and float16 on
/// a GPU, float32 and bfloat16 on a CPU.
DrawnShape draw_shape(std::uint64_t seed, std::int64_t index, const std::string& device);

/// The shape as a line of a shape file.
std::string shape_line(const BenchShape& shape);

}  // namespace sluice::bench::sweep
