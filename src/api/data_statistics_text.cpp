#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "sluice/data_statistics.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownLines = 10;
constexpr std::size_t kShownLabels = 20;

double percent_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

/// The most frequent first; of those as frequent, in byte order.
std::vector<std::pair<std::string, std::int64_t>> by_count(
    const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

std::string lengths_row(const std::string& name, const LengthStatistics& lengths) {
  std::string row = fmt::format("  {:<10}{:>9}", name, lengths.shortest);
  for (const auto& [percent, length] : lengths.percentiles) row += fmt::format("{:>7}", length);
  return row + fmt::format("{:>9}{:>9.1f}\n", lengths.longest, lengths.mean);
}

std::string lengths_table(const PartStatistics& part) {
  std::string rows;
  for (const SideStatistics& side : part.sides) {
    if (!side.lengths.percentiles.empty()) rows += lengths_row(side.name, side.lengths);
  }
  for (const ArrayStatistics& arrays : part.arrays) {
    if (!arrays.lengths.percentiles.empty()) rows += lengths_row(arrays.name, arrays.lengths);
  }
  if (rows.empty()) return "";
  return fmt::format("  {:<10}{:>9}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>9}{:>9}\n", "length",
                     "shortest", "1%", "5%", "25%", "50%", "75%", "95%", "99%", "longest", "mean") +
         rows;
}

std::string show(const SideStatistics& side) {
  std::string text = fmt::format("  {:<10}{}", side.name, base::counted(side.tokens, "token"));
  if (side.unknown) {
    text += fmt::format(", {} unknown ({:.2f}%)", *side.unknown,
                        percent_of(*side.unknown, side.tokens));
  }
  return text + '\n';
}

std::string show(const ArrayStatistics& arrays) {
  std::string text = fmt::format(
      "  {:<10}{} of {}, {}, {}", arrays.name, base::counted(arrays.arrays, "array"),
      arrays.integers ? "integers" : "floating point", base::counted(arrays.sequences, "sequence"),
      base::counted(arrays.frames, "frame"));
  text += arrays.width > 0 ? fmt::format(" of {}\n", base::counted(arrays.width, "number"))
                           : std::string(" that differ in their numbers: training refuses them\n");
  text += fmt::format("  {:<10}{:g} to {:g}, mean {:g}, deviation {:g}; {} NaN, {} infinite\n",
                      "values", arrays.least, arrays.most, arrays.mean, arrays.deviation,
                      arrays.nan, arrays.infinite);
  std::string shapes;
  std::size_t shown = 0;
  for (const auto& [shape, count] : by_count(arrays.shapes)) {
    if (shown++ == 5) break;
    shapes += fmt::format("{}{} x{}", shapes.empty() ? "" : ", ", shape, count);
  }
  if (arrays.shapes.size() > 5) shapes += fmt::format(" and {} more", arrays.shapes.size() - 5);
  return text + fmt::format("  {:<10}{}\n", "shapes", shapes);
}

std::string show_labels(const PartStatistics& part) {
  if (part.labels.empty()) return "";
  std::int64_t all = 0;
  for (const auto& [label, count] : part.labels) all += count;
  std::string text = fmt::format("  {:<10}{} different\n", "labels", part.labels.size());
  std::size_t shown = 0;
  for (const auto& [label, count] : by_count(part.labels)) {
    if (shown++ == kShownLabels) break;
    text += fmt::format("            {:>8} {:6.2f}%  {}\n", count, percent_of(count, all), label);
  }
  return text;
}

std::string show_examples(const PartStatistics& part) {
  std::string text = fmt::format("  {:<10}{}\n", "examples", part.examples);
  const auto add = [&](std::int64_t count, const char* what) {
    if (count > 0) text += fmt::format("            {:>8} {}\n", count, what);
  };
  add(part.empty, "empty: left out");
  add(part.too_long, "above data.max_source_tokens or data.max_target_tokens: left out");
  add(part.over_batch, "alone larger than training.max_tokens: training refuses them");
  add(part.duplicates, "the same as one before");
  add(part.seen, "the same as one to train on");
  return text;
}

std::string show_bad(const PartStatistics& part) {
  if (part.bad_lines == 0) return "";
  std::string text =
      fmt::format("  {:<10}{}: training refuses them\n", "bad lines", part.bad_lines);
  for (std::size_t i = 0; i < std::min(part.bad.size(), kShownLines); ++i) {
    text += fmt::format("    {}\n", part.bad[i].reason);
  }
  return text;
}

Json json_of(const LengthStatistics& lengths) {
  Json json{{"shortest", lengths.shortest}, {"longest", lengths.longest}, {"mean", lengths.mean}};
  json["percentiles"] = Json::object();
  for (const auto& [percent, length] : lengths.percentiles) {
    json["percentiles"][std::to_string(percent)] = length;
  }
  json["histogram"] = Json::array();
  for (const auto& [most, count] : lengths.histogram) json["histogram"].push_back({most, count});
  return json;
}

Json json_of(const SideStatistics& side) {
  Json json{{"name", side.name}, {"tokens", side.tokens}};
  if (side.unknown) json["unknown"] = *side.unknown;
  json["lengths"] = json_of(side.lengths);
  return json;
}

Json json_of(const ArrayStatistics& arrays) {
  return {{"name", arrays.name},           {"arrays", arrays.arrays},
          {"sequences", arrays.sequences}, {"frames", arrays.frames},
          {"shapes", arrays.shapes},       {"width", arrays.width},
          {"integers", arrays.integers},   {"least", arrays.least},
          {"most", arrays.most},           {"mean", arrays.mean},
          {"deviation", arrays.deviation}, {"nan", arrays.nan},
          {"infinite", arrays.infinite},   {"lengths", json_of(arrays.lengths)}};
}

Json json_of(const PartStatistics& part) {
  Json json{{"name", part.name},
            {"files", part.files},
            {"examples", part.examples},
            {"empty", part.empty},
            {"too_long", part.too_long},
            {"over_batch", part.over_batch},
            {"duplicates", part.duplicates},
            {"seen", part.seen}};
  for (const char* list : {"sides", "arrays", "bad"}) json[list] = Json::array();
  for (const SideStatistics& side : part.sides) json["sides"].push_back(json_of(side));
  json["labels"] = part.labels;
  for (const ArrayStatistics& arrays : part.arrays) json["arrays"].push_back(json_of(arrays));
  json["bad_lines"] = part.bad_lines;
  for (const BadLine& bad : part.bad) {
    json["bad"].push_back({{"file", bad.file}, {"line", bad.line}, {"reason", bad.reason}});
  }
  return json;
}

std::string names_of(std::vector<std::string> files) {
  std::ranges::replace(files, std::string("-"), std::string("standard input"));
  return fmt::format("{}", fmt::join(files, ", "));
}

}  // namespace

std::string to_text(const DataStatistics& statistics) {
  std::string text;
  for (const PartStatistics& part : statistics.parts) {
    text += fmt::format("{}: {}\n", part.name, names_of(part.files)) + show_examples(part);
    for (const SideStatistics& side : part.sides) text += show(side);
    for (const ArrayStatistics& arrays : part.arrays) text += show(arrays);
    text += lengths_table(part) + show_labels(part) + show_bad(part);
  }
  return text;
}

std::string to_json(const DataStatistics& statistics) {
  Json json{{"kind", statistics.kind}, {"parts", Json::array()}};
  for (const PartStatistics& part : statistics.parts) json["parts"].push_back(json_of(part));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sluice
