#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sluice::bench::report {

/// One line of a plot: two bars that start at 1.
struct Bars {
  std::string label;
  std::string details;  ///< shown by the browser when pointed at
  std::optional<double> default_ratio;
  std::optional<double> best_ratio;
};

/// An SVG element of horizontal bars on a logarithmic axis: to the right of 1 faster than the best
/// peer, to the left slower. The lower, lighter bar is left out where both ratios agree.
std::string bar_plot(const std::vector<Bars>& bars);

struct TitledPlot {
  std::string title;
  std::vector<Bars> bars;
};
/// The plots below each other as an SVG file with colours and fonts of its own.
std::string picture(const std::vector<TitledPlot>& plots);

}  // namespace sluice::bench::report
