#include "training/parameter_patterns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"

namespace sluice::training {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) - begin + 1);
}

// Of several '*' only the last one met has to be tried again: time is at most the product of the
// two lengths.
bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0;
  std::size_t star = std::string_view::npos, star_end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace

ParameterPatterns::ParameterPatterns(std::string_view key, std::string_view list) : key_(key) {
  if (trimmed(list).empty()) return;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view pattern = trimmed(list.substr(begin, end - begin));
    SLUICE_CHECK(!pattern.empty(),
                 "{} is '{}', which has an empty pattern; separate patterns by one comma", key,
                 list);
    patterns_.emplace_back(pattern);
    begin = end + 1;
  }
}

bool ParameterPatterns::match(std::string_view name) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

void ParameterPatterns::require_use(std::span<const layers::ParameterSpec> parameters,
                                    std::span<const std::string> choice) const {
  for (const std::string& pattern : patterns_) {
    const bool used =
        std::any_of(parameters.begin(), parameters.end(),
                    [&](const layers::ParameterSpec& spec) { return matches(pattern, spec.name); });
    SLUICE_CHECK(used, "'{}' of {} matches no parameter; choose from: {}", pattern, key_,
                 fmt::join(choice, ", "));
  }
}

std::vector<std::string> names_of(std::span<const layers::ParameterSpec> parameters) {
  std::vector<std::string> names;
  for (const layers::ParameterSpec& spec : parameters) names.push_back(spec.name);
  return names;
}

}  // namespace sluice::training
