#pragma once

#include <optional>
#include <string_view>

#include "bench/workload.h"

namespace sluice::bench {

/// What the double-precision oracle makes of a shape's numbers.
HostResults oracle_results(const BenchShape& shape, const HostData& data, Pass pass);

/// The float32 results of the implementation with that name; empty if it cannot run the case.
std::optional<HostResults> float32_results(const runtime::Context& context, const BenchShape& shape,
                                           const HostData& data, Pass pass, std::string_view name);

/// Relative RMS error, sqrt(sum (a - b)^2 / sum b^2): the worst of y (with hn and cn) and each
/// gradient. NaN if a result holds a NaN.
double worst_error(const HostResults& results, const HostResults& expected);

}  // namespace sluice::bench
