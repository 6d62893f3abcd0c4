#include "api/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/html.h"

namespace sluice::api {
namespace {

// All in pixels.
constexpr double kWidth = 520, kHeight = 250;
constexpr double kLeft = 64, kRight = 14, kTop = 34, kBottom = 30;
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

std::string grid(const Axis& x, const Axis& y) {
  std::string text;
  for (const double value : y.ticks(5)) {
    text += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n",
        x.from, x.to, y.at(value), y.at(value), x.from - 6, y.at(value) + 4, value);
  }
  for (const double step : x.ticks(6)) {
    if (step != std::round(step)) continue;
    text += fmt::format(
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.0f}</text>\n",
        x.at(step), y.from + 16, step);
  }
  return text;
}

std::string line(const std::vector<Point>& points, const Axis& x, const Axis& y,
                 const char* color) {
  if (points.size() == 1) {
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n",
                       x.at(points[0].step), y.at(points[0].value), color);
  }
  std::string places;
  for (const Point& point : points) {
    places += fmt::format("{:.1f},{:.1f} ", x.at(point.step), y.at(point.value));
  }
  return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" points=\"{}\"/>\n",
                     color, places);
}

// To the right of the title, with the last value of each.
std::string legend(const std::string& name, double last, double x, const char* color) {
  return fmt::format(
      "<text class=\"value\" x=\"{:.1f}\" y=\"18\" text-anchor=\"end\" fill=\"{}\">{} "
      "{:.5g}</text>\n",
      x, color, base::escape_html(name), last);
}

}  // namespace

std::string line_plot(const std::string& title, const std::vector<Series>& series) {
  Axis x{.from = kLeft, .to = kWidth - kRight};
  Axis y{.from = kHeight - kBottom, .to = kTop};
  std::vector<std::vector<Point>> lines;
  for (const Series& one : series) {
    lines.push_back(finite_points(*one.curve));
    for (const Point& point : lines.back()) {
      x.include(point.step);
      y.include(point.value);
    }
  }
  if (x.low > x.high) return "";
  x.widen();
  y.widen();
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\"><title>{2}</title>\n<text x=\"{3:.0f}\" y=\"18\" "
      "font-weight=\"700\">{2}</text>\n",
      kWidth, kHeight, base::escape_html(title), kLeft);
  text += grid(x, y);
  double legend_end = x.to;
  for (std::size_t i = lines.size(); i-- > 0;) {
    if (lines[i].empty()) continue;
    const char* color = series[i].color;
    text += line(thinned(lines[i]), x, y, color);
    text += legend(series[i].name, lines[i].back().value, legend_end, color);
    legend_end -= 140;
  }
  return text + "</svg>\n";
}

}  // namespace sluice::api
