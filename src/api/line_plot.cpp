#include "api/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/html.h"

namespace sluice::api {

const std::string_view kPlotStyle = R"(
.plots { display: flex; flex-wrap: wrap; gap: 12px; }
.plots { --train: #1f6feb; --validation: #b35900; }
@media (prefers-color-scheme: dark) { .plots { --train: #79b8ff; --validation: #f0a35e; } }
svg polyline { fill: none; stroke-width: 1.6; }
svg polyline.train { stroke: var(--train); } svg polyline.validation { stroke: var(--validation); }
svg circle.train, svg text.train { fill: var(--train); }
svg circle.validation, svg text.validation { fill: var(--validation); }
@media (max-width: 600px) { .plots svg { font-size: 15px; } .plots svg .tick, .plots svg .value { font-size: 15px; } }
)";

namespace {

// All in pixels.
constexpr double kWidth = 520, kHeight = 264;
constexpr double kLeft = 64, kRight = 14, kTop = 34, kBottom = 44;
constexpr std::size_t kStretches = 500;

struct Point {
  double step, value;
};

std::vector<Point> finite_points(const training::Curve& curve) {
  std::vector<Point> points;
  for (const auto& [step, value] : curve) {
    if (std::isfinite(value)) points.push_back({static_cast<double>(step), value});
  }
  return points;
}

// Large numbers as 10k and 2M, so that they fit beside the axis.
std::string number(double value, int digits) {
  if (std::abs(value) >= 1e6) return fmt::format("{:.{}g}M", value / 1e6, digits);
  if (std::abs(value) >= 1e4) return fmt::format("{:.{}g}k", value / 1e3, digits);
  return fmt::format("{:.{}g}", value, digits);
}

std::string tick(double value, bool percent) {
  return percent ? fmt::format("{:.6g}%", 100 * value) : number(value, 6);
}

std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= 2 * kStretches) return points;
  std::vector<Point> kept;
  for (std::size_t i = 0; i < kStretches; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(points.size() * i / kStretches);
    const auto end =
        points.begin() + static_cast<std::ptrdiff_t>(points.size() * (i + 1) / kStretches);
    const auto less = [](const Point& a, const Point& b) { return a.value < b.value; };
    auto [low, high] = std::minmax_element(begin, end, less);
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (high != low) kept.push_back(*high);
  }
  return kept;
}

/// From values to pixels.
struct Axis {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  double from, to;

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void widen() {
    if (high > low) return;
    const double room = low == 0 ? 1 : std::abs(low) / 10;
    low -= room;
    high += room;
  }
  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }

  /// Round numbers within: 1, 2 or 5 times a power of ten apart.
  std::vector<double> ticks(double wanted) const {
    const double least = (high - low) / wanted;
    const double power = std::pow(10, std::floor(std::log10(least)));
    double distance = 10 * power;
    for (const double times : {5.0, 2.0, 1.0}) {
      if (times * power >= least) distance = times * power;
    }
    std::vector<double> places;
    for (double i = std::ceil(low / distance); i * distance <= high; ++i) {
      places.push_back(i == 0 ? 0 : i * distance);
    }
    return places;
  }
};

std::string grid(const Axis& x, const Axis& y, bool percent) {
  std::string text;
  for (const double value : y.ticks(5)) {
    text += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        x.from, x.to, y.at(value), y.at(value), x.from - 6, y.at(value) + 4, tick(value, percent));
  }
  for (const double step : x.ticks(6)) {
    if (step != std::round(step)) continue;
    text += fmt::format(
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
        x.at(step), y.from + 16, tick(step, false));
  }
  return text + fmt::format(
                    "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">step"
                    "</text>\n",
                    x.to, y.from + 34);
}

std::string line(const std::vector<Point>& points, const Axis& x, const Axis& y,
                 const std::string& name) {
  if (points.size() == 1) {
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" class=\"{}\"/>\n",
                       x.at(points[0].step), y.at(points[0].value), name);
  }
  std::string places;
  for (const Point& point : points) {
    places += fmt::format("{:.1f},{:.1f} ", x.at(point.step), y.at(point.value));
  }
  return fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", name, places);
}

// To the right of the title, with the last value of each.
std::string legend(const std::string& name, const std::string& last, double x) {
  return fmt::format(
      "<text class=\"value {0}\" x=\"{1:.1f}\" y=\"18\" text-anchor=\"end\">{0} {2}</text>\n", name,
      x, last);
}

}  // namespace

std::string line_plot(const Plot& plot) {
  Axis x{.from = kLeft, .to = kWidth - kRight};
  Axis y{.from = kHeight - kBottom, .to = kTop};
  std::vector<std::vector<Point>> lines;
  for (const Series& one : plot.series) {
    lines.push_back(finite_points(*one.curve));
    for (const Point& point : lines.back()) {
      x.include(point.step);
      y.include(point.value);
    }
  }
  if (x.low > x.high) return "";
  if (plot.percent && y.low == y.high) {  // there is nothing below none and beyond all
    y.include(0);
    y.include(1);
  }
  x.widen();
  y.widen();
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\"><title>{2}</title>\n<text x=\"{3:.0f}\" y=\"18\" "
      "font-weight=\"700\">{2}</text>\n",
      kWidth, kHeight, base::escape_html(plot.title), kLeft);
  text += grid(x, y, plot.percent);
  double legend_end = x.to;
  for (std::size_t i = lines.size(); i-- > 0;) {
    if (lines[i].empty()) continue;
    const std::string name = base::escape_html(plot.series[i].name);
    const double last = lines[i].back().value;
    text += line(thinned(lines[i]), x, y, name);
    text += legend(name, plot.show ? plot.show(last) : number(last, 5), legend_end);
    legend_end -= 140;
  }
  return text + "</svg>\n";
}

}  // namespace sluice::api
