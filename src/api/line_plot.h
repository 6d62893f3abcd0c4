#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "training/metrics_reader.h"

namespace sluice::api {

/// A line of a plot.
struct Series {
  std::string name;  ///< in the legend, and its class, by which a page's style gives it a colour
  const training::Curve* curve;
};

/// What is drawn, and in which unit.
struct Plot {
  std::string title;
  std::vector<Series> series = {};
  std::string (*show)(double) = nullptr;  ///< the legend's values; null: five digits
  bool percent = false;                   ///< values are shares of 1
};

/// For the page: colours of lines by their names, on light and on dark, and text that stays large
/// enough on narrow screens.
extern const std::string_view kPlotStyle;

/// An SVG element with a line for each series over the step, axes from the least to the largest
/// finite value, and a legend of the last values. A line is drawn through at most a thousand
/// points: the least and the largest value of each stretch. Empty if there is no finite value.
std::string line_plot(const Plot& plot);

}  // namespace sluice::api
