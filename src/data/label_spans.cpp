#include "data/label_spans.h"

#include <algorithm>

#include "base/check.h"
#include "data/utf8.h"

namespace sluice::data {
namespace {

constexpr std::string_view kOutside = "O";

struct Part {
  std::string_view prefix;  ///< the first character
  std::string_view type;

  bool is(std::string_view prefixes) const { return prefixes.find(prefix) != prefixes.npos; }
};

Part split(std::string_view label) {
  const std::size_t length = std::max<std::size_t>(code_point_at(label, 0).length, 1);
  const std::string_view prefix = label.substr(0, length);
  std::string_view type = label.substr(std::min(length, label.size()));
  if (const std::size_t hyphen = type.find('-'); hyphen != std::string_view::npos) {
    type.remove_prefix(hyphen + 1);
  }
  return {prefix, type.empty() ? "_" : type};
}

bool ends_between(const Part& before, const Part& now) {
  if (before.is("ES")) return true;
  if (before.is("BI") && now.is("BSO")) return true;
  return !before.is("O.") && before.type != now.type;
}

bool begins_between(const Part& before, const Part& now) {
  if (now.is("BS")) return true;
  if (before.is("ESO") && now.is("EI")) return true;
  return !now.is("O.") && before.type != now.type;
}

}  // namespace

std::vector<LabelSpan> spans_of(std::span<const std::string> labels) {
  std::vector<LabelSpan> spans;
  Part before = split(kOutside);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i <= labels.size(); ++i) {
    const Part now = split(i < labels.size() ? std::string_view(labels[i]) : kOutside);
    const auto at = static_cast<std::int64_t>(i);
    if (ends_between(before, now)) spans.push_back({std::string(before.type), begin, at});
    if (begins_between(before, now)) begin = at;
    before = now;
  }
  return spans;
}

LabelScheme parse_label_scheme(std::string_view name) {
  if (name == "as-is") return LabelScheme::kAsIs;
  if (name == "bio") return LabelScheme::kBio;
  if (name == "bioes") return LabelScheme::kBioes;
  base::fail(ErrorCode::kInvalidArgument, "data.label_scheme is '{}'; use as-is, bio or bioes",
             name);
}

bool is_span_label(std::string_view label) {
  return label == kOutside || (label.size() > 2 && label[1] == '-' &&
                               std::string_view("BIES").find(label[0]) != std::string_view::npos);
}

std::vector<std::string> respell_labels(std::span<const std::string> labels, LabelScheme scheme) {
  if (scheme == LabelScheme::kAsIs) return {labels.begin(), labels.end()};
  std::vector<std::string> spelled(labels.size(), std::string(kOutside));
  for (const LabelSpan& span : spans_of(labels)) {
    for (std::int64_t at = span.begin; at < span.end; ++at) {
      const bool first = at == span.begin;
      const bool last = at + 1 == span.end && scheme == LabelScheme::kBioes;
      const char prefix = first ? (last ? 'S' : 'B') : (last ? 'E' : 'I');
      spelled[static_cast<std::size_t>(at)] = fmt::format("{}-{}", prefix, span.type);
    }
  }
  return spelled;
}

}  // namespace sluice::data
