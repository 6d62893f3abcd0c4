#pragma once

#include <iosfwd>

#include "bench/recurrent_bench.h"

namespace sluice::bench {

/// The workload "table" or "ladder" of bench/shapes/named.shapes, or the first line of the file
/// `shapes` if that isn't empty; in this dtype, on this device.
BenchShape fixed_workload(std::string_view name, const std::string& shapes, std::string_view dtype,
                          std::string_view device);

/// "table: LSTM, 100 steps x 64 rows, input 512, hidden 512, 1 layer, float32"
std::string describe(const BenchShape& shape);

/// run_recurrent_bench without its table: only who declines, and why, is printed, and
/// on standard error how it gets on.
std::vector<BenchResult> run_quietly(const RecurrentBenchOptions& options, const BenchShape& shape,
                                     std::ostream& out);

}  // namespace sluice::bench
