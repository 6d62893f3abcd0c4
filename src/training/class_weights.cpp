#include "training/class_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <numeric>
#include <set>
#include <string_view>

#include "base/check.h"

namespace sluice::training {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

float number_of(std::string_view entry, std::string_view text) {
  float value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  SLUICE_CHECK(error == std::errc() && end == text.data() + text.size() && std::isfinite(value) &&
                   value >= 0,
               "training.class_weights has '{}'; write LABEL=NUMBER, the number at least 0, with "
               "commas between",
               entry);
  return value;
}

std::vector<float> listed(std::string_view text, const data::Labels& labels) {
  std::vector<float> weights(static_cast<std::size_t>(labels.size()), 1.0F);
  std::set<std::int32_t> seen;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view entry = trimmed(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    // A label may hold '=' itself.
    const std::size_t sign = entry.rfind('=');
    const float weight =
        number_of(entry, sign == std::string_view::npos ? "" : trimmed(entry.substr(sign + 1)));
    const std::string_view label = trimmed(entry.substr(0, sign));
    const auto id = labels.find(label);
    SLUICE_CHECK(id, "training.class_weights has the label '{}', but the labels are {}", label,
                 fmt::join(labels.names(), ", "));
    SLUICE_CHECK(seen.insert(*id).second, "training.class_weights has the label '{}' twice", label);
    weights[static_cast<std::size_t>(*id)] = weight;
  }
  return weights;
}

std::vector<float> balanced(const data::Labels& labels, const data::Examples& examples) {
  const std::vector<std::int64_t> counts = examples.label_counts(labels.size());
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0LL));
  std::vector<float> weights;
  for (const std::int64_t count : counts) {
    const double weight =
        count == 0 ? 1 : all / (static_cast<double>(labels.size()) * static_cast<double>(count));
    weights.push_back(static_cast<float>(weight));
  }
  return weights;
}

}  // namespace

std::vector<float> class_weights_of(const std::string& text, const data::Labels& labels,
                                    const data::Examples& examples) {
  return text == "balanced" ? balanced(labels, examples) : listed(text, labels);
}

void set_class_weights(const runtime::Context& context, const TrainConfig& config,
                       const TrainData& data, models::ClassWeights& weights) {
  const std::string& text = config.loop.class_weights;
  if (text.empty()) return;
  weights.set(context, class_weights_of(text, *data.tokenizers.labels, *data.train));
}

}  // namespace sluice::training
