#include "bench/report/bar_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/html.h"

namespace sluice::bench::report {
namespace {

using base::escape_html;

constexpr double kLabelWidth = 190;
constexpr double kPlotWidth = 560;
constexpr double kMargin = 60;  // for the numbers behind the bars
constexpr double kLineHeight = 26;
constexpr double kTop = 24;

// Ratios as places on the axis.
struct Axis {
  double low = -1;  // powers of two
  double high = 1;

  double at(double ratio) const {
    const double power = std::clamp(std::log2(ratio), low, high);
    return kLabelWidth + kMargin + (power - low) / (high - low) * (kPlotWidth - 2 * kMargin);
  }
};

Axis axis_of(const std::vector<Bars>& bars) {
  constexpr double kMostPowers = 10;
  Axis axis;
  for (const Bars& line : bars) {
    for (const auto& ratio : {line.default_ratio, line.best_ratio}) {
      if (!ratio) continue;
      axis.low = std::max(-kMostPowers, std::min(axis.low, std::floor(std::log2(*ratio))));
      axis.high = std::min(kMostPowers, std::max(axis.high, std::ceil(std::log2(*ratio))));
    }
  }
  return axis;
}

std::string bar(const Axis& axis, double ratio, double y, double height, const char* kind) {
  const double one = axis.at(1), end = axis.at(ratio);
  std::string text = fmt::format(
      R"(<rect class="{} {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>)", kind,
      ratio >= 1 ? "faster" : "slower", std::min(one, end), y, std::abs(end - one), height);
  text += fmt::format(R"(<text class="value" x="{:.1f}" y="{:.1f}" text-anchor="{}">{:.2f}</text>)",
                      ratio >= 1 ? end + 4 : end - 4, y + height / 2 + 3.5,
                      ratio >= 1 ? "start" : "end", ratio);
  return text + "\n";
}

std::string line_of(const Axis& axis, const Bars& bars, double y) {
  std::string text = fmt::format(
      "<g><title>{}</title><text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
      escape_html(bars.details), kLabelWidth - 6, y + kLineHeight / 2 + 4, escape_html(bars.label));
  const bool two = bars.default_ratio && bars.default_ratio != bars.best_ratio;
  if (bars.best_ratio) text += bar(axis, *bars.best_ratio, y + 3, two ? 10 : 18, "best");
  if (two) text += bar(axis, *bars.default_ratio, y + 14, 9, "default");
  return text + "</g>\n";
}

std::string grid(const Axis& axis, double bottom) {
  std::string text;
  for (double power = axis.low; power <= axis.high; ++power) {
    const double x = axis.at(std::exp2(power));
    text += fmt::format(
        "<line class=\"{}\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}x</text>\n",
        power == 0 ? "one" : "grid", x, x, kTop - 6, bottom, x, kTop - 10, std::exp2(power));
  }
  return text;
}

constexpr double kWidth = kLabelWidth + kPlotWidth;

double bottom_of(const std::vector<Bars>& bars) {
  return kTop + kLineHeight * static_cast<double>(bars.size());
}

/// The elements of a plot, without the <svg> around them.
std::string elements(const std::vector<Bars>& bars) {
  const Axis axis = axis_of(bars);
  std::string text = grid(axis, bottom_of(bars));
  double y = kTop;
  for (const Bars& line : bars) {
    text += line_of(axis, line, y);
    y += kLineHeight;
  }
  return text;
}

}  // namespace

std::string bar_plot(const std::vector<Bars>& bars) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "width=\"{:.0f}\">\n{}</svg>\n",
      kWidth, bottom_of(bars) + 4, kWidth, elements(bars));
}

std::string picture(const std::vector<TitledPlot>& plots) {
  constexpr std::string_view kStyle = R"(<style>
text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #1b1f24; }
.grid { stroke: #d8dee4; } .one { stroke: #1b1f24; } .tick, .value { font-size: 11px; }
.title { font-size: 13px; font-weight: 700; }
.faster { fill: #1a7f5a; } .slower { fill: #b42318; } .default { opacity: .5; }
</style>
)";
  constexpr double kTitleHeight = 24, kGap = 16;
  double y = 0;
  std::string drawn;
  for (const TitledPlot& plot : plots) {
    drawn += fmt::format("<text class=\"title\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", kLabelWidth,
                         y + 16, escape_html(plot.title));
    drawn += fmt::format("<g transform=\"translate(0 {:.0f})\">\n{}</g>\n", y + kTitleHeight,
                         elements(plot.bars));
    y += kTitleHeight + bottom_of(plot.bars) + kGap;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n{2}<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n"
      "{3}</svg>\n",
      kWidth, y, kStyle, drawn);
}

}  // namespace sluice::bench::report
