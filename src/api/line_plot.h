#pragma once

#include <string>
#include <vector>

#include "training/metrics_reader.h"

namespace sluice::api {

/// A line of a plot.
struct Series {
  std::string name;
  const training::Curve* curve;
  const char* color;  ///< as CSS has it
};

/// An SVG element with a line for each series over the step, axes from the least to the largest
/// finite value, and a legend. A line is drawn through at most a thousand points: the least and the
/// largest value of each stretch. Empty if there is no finite value.
std::string line_plot(const std::string& title, const std::vector<Series>& series);

}  // namespace sluice::api
