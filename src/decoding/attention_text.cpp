#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "decoding/attention_view.h"
#include "decoding/token_label.h"

namespace sluice::decoding {
namespace {

constexpr std::int64_t kLongestLabel = 24;

std::vector<std::string> labels_of(const std::vector<std::string>& tokens) {
  std::vector<std::string> labels;
  for (const std::string& token : tokens) labels.push_back(token_label(token, kLongestLabel));
  return labels;
}

std::int64_t widest(const std::vector<std::string>& labels) {
  std::int64_t width = 0;
  for (const std::string& label : labels) width = std::max(width, display_width(label));
  return width;
}

std::string repeated(std::string_view text, std::int64_t times) {
  std::string all;
  for (std::int64_t i = 0; i < times; ++i) all += text;
  return all;
}

/// `label` and spaces up to `width` columns.
std::string padded(const std::string& label, std::int64_t width) {
  return label + repeated(" ", width - display_width(label));
}

std::string_view shade(float weight) {
  if (weight >= 0.75f) return "█";
  if (weight >= 0.5f) return "▓";
  if (weight >= 0.25f) return "▒";
  return weight >= 0.1f ? "░" : " ";
}

/// Source tokens without a width of their own still get a column.
std::int64_t column_width(const std::string& label) {
  return std::max<std::int64_t>(1, display_width(label));
}

std::string matrix(const std::vector<std::string>& source, const std::vector<std::string>& target,
                   const std::vector<std::vector<float>>& attention) {
  const std::int64_t left = widest(target);
  std::string text = repeated(" ", left + 2);
  for (const std::string& label : source) text += padded(label, column_width(label));
  text += '\n';
  for (std::size_t t = 0; t < target.size(); ++t) {
    text += padded(target[t], left) + " │";
    for (std::size_t s = 0; s < source.size(); ++s) {
      text += repeated(shade(attention[t][s]), column_width(source[s]));
    }
    text += "│\n";
  }
  return text;
}

/// "Haus <- house 0.83, the 0.10": at most three, none below a tenth but the first.
std::string strongest(const std::vector<std::string>& source, const std::vector<float>& weights) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  std::string text;
  for (std::size_t i = 0; i < order.size() && i < 3; ++i) {
    if (i > 0 && weights[order[i]] < 0.1f) break;
    text += fmt::format("{}{} {:.2f}", i > 0 ? ", " : "", source[order[i]], weights[order[i]]);
  }
  return text;
}

}  // namespace

std::string attention_text(const AttentionView& view, std::int64_t columns) {
  view.check();
  const std::vector<std::string> source = labels_of(view.source), target = labels_of(view.target);
  std::int64_t width = widest(target) + 3;
  for (const std::string& label : source) width += column_width(label);
  const bool characters = std::ranges::all_of(
      source, [](const std::string& label) { return token_label(label, 1) == label; });
  if (characters && width <= columns) return matrix(source, target, view.attention);

  std::string text;
  for (std::size_t t = 0; t < target.size(); ++t) {
    text += padded(target[t], widest(target)) + " ← " + strongest(source, view.attention[t]) + '\n';
  }
  return text;
}

}  // namespace sluice::decoding
