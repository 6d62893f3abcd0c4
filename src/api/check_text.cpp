#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "sluice/check.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kColumns[] = {"layer",     "numbers",       "largest", "mean",
                                         "tolerance", "step,row,unit", "verdict"};

std::string_view verdict_of(const LayerCheck& layer) {
  if (layer.differs()) return "differs";
  return layer.largest == 0 ? "identical" : "agrees";
}

std::string place_text(const std::optional<LayerPlace>& place) {
  return place ? fmt::format("{},{},{}", place->step, place->row, place->unit) : "-";
}

/// One column after the other, names to the left and numbers to the right.
std::string table_of(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths(std::size(kColumns));
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    text += fmt::format("{:<{}}", line[0], widths[0]);
    for (std::size_t i = 1; i + 1 < line.size(); ++i) {
      text += fmt::format("  {:>{}}", line[i], widths[i]);
    }
    text += fmt::format("  {}\n", line.back());
  }
  return text;
}

std::vector<std::string> line_of(const LayerCheck& layer) {
  std::string verdict(verdict_of(layer));
  if (layer.differs()) {
    verdict += fmt::format(" in {}, first at {}", base::counted(layer.beyond, "number"),
                           place_text(layer.first));
  }
  return {layer.name,
          std::to_string(layer.values),
          fmt::format("{:.2g}", layer.largest),
          fmt::format("{:.2g}", layer.mean),
          fmt::format("{:.2g}", layer.tolerance),
          place_text(layer.largest_at),
          std::move(verdict)};
}

/// "unit 3 is 0.5, but 0.75 in the reference, 0.25 apart".
std::string numbers_of(const LayerPlace& at) {
  // The fewest digits that tell two float32 numbers from each other.
  const auto value = static_cast<float>(at.value), reference = static_cast<float>(at.reference);
  const std::string unit = fmt::format("unit {} is {}", at.unit, value);
  if (!std::isfinite(value)) {
    return fmt::format("{}, which is not finite, but {} in the reference", unit, reference);
  }
  if (!std::isfinite(reference)) {
    return fmt::format("{}, but {} in the reference, which is not finite", unit, reference);
  }
  return fmt::format("{}, but {} in the reference, {:.2g} apart", unit, reference,
                     std::abs(at.value - at.reference));
}

std::string summary_of(const CheckReport& report) {
  const auto is_identical = [](const LayerCheck& layer) { return layer.largest == 0; };
  const auto layers = static_cast<std::int64_t>(report.layers.size());
  if (const LayerCheck* first = report.first_to_differ()) {
    const LayerPlace& at = *first->first;
    const auto differing = std::ranges::count_if(report.layers, &LayerCheck::differs);
    return fmt::format(
        "The first layer that differs is {}: at step {} of row {}, {}. {} of {} {}.\n", first->name,
        at.step, at.row, numbers_of(at), differing, base::counted(layers, "layer"),
        differing == 1 ? "differs" : "differ");
  }
  if (std::ranges::all_of(report.layers, is_identical)) {
    return fmt::format("All numbers of {} are equal.\n", base::counted(layers, "layer"));
  }
  if (layers == 1) return "The only layer agrees within its tolerance.\n";
  return fmt::format("All {} layers agree within their tolerance.\n", layers);
}

/// JSON has no number that is not finite: "nan", "inf", "-inf".
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}

Json json_of(const std::optional<LayerPlace>& place) {
  if (!place) return nullptr;
  return Json{{"step", place->step},
              {"row", place->row},
              {"unit", place->unit},
              {"value", number(place->value)},
              {"reference", number(place->reference)}};
}

}  // namespace

std::string to_text(const CheckReport& report) {
  std::vector<std::vector<std::string>> lines{{std::begin(kColumns), std::end(kColumns)}};
  for (auto layer = report.layers.rbegin(); layer != report.layers.rend(); ++layer) {
    lines.push_back(line_of(*layer));
  }
  std::string text =
      fmt::format("this run   {}\nreference  {}\n{}, the last layer first\n\n{}\n", report.side,
                  report.reference, base::counted(report.inputs, "input"), table_of(lines));
  if (!report.not_compared.empty()) {
    text += fmt::format("Not compared, for one side alone has them: {}.\n",
                        fmt::join(report.not_compared, ", "));
  }
  text += summary_of(report);
  if (report.side == report.reference) {
    text +=
        "Both sides ran the same implementations in the same precision on the same device, so "
        "nothing was tested.\n";
  }
  return text;
}

std::string to_json(const CheckReport& report) {
  Json json{
      {"agrees", report.agrees()},          {"first_to_differ", nullptr}, {"side", report.side},
      {"reference", report.reference},      {"inputs", report.inputs},    {"layers", Json::array()},
      {"not_compared", report.not_compared}};
  if (const LayerCheck* first = report.first_to_differ()) json["first_to_differ"] = first->name;
  for (const LayerCheck& layer : report.layers) {
    json["layers"].push_back({{"name", layer.name},
                              {"verdict", verdict_of(layer)},
                              {"numbers", layer.values},
                              {"beyond", layer.beyond},
                              {"largest", number(layer.largest)},
                              {"mean", number(layer.mean)},
                              {"scale", number(layer.scale)},
                              {"tolerance", layer.tolerance},
                              {"largest_at", json_of(layer.largest_at)},
                              {"first", json_of(layer.first)}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sluice
