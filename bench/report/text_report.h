#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "bench/report/comparison.h"

namespace sluice::bench::report {

/// Three significant digits without an exponent: "0.0461", "12.3", "1024".
std::string format_milliseconds(double milliseconds);

/// A table of all groups: default, best own and best peer of each workload with their times and
/// ratios, below each row all that was measured, and geometric means at the end.
void write_text(std::ostream& out, const std::vector<Group>& groups);

}  // namespace sluice::bench::report
