#pragma once

#include <string>
#include <vector>

#include "bench/report/comparison.h"

namespace sluice::bench::report {

/// One page that needs nothing else: geometric means, and of each group a plot of the ratios and a
/// table with the milliseconds of every implementation.
std::string html_page(const std::vector<Group>& groups);

}  // namespace sluice::bench::report
