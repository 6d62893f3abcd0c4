#include "base/suggest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sluice::base {
namespace {

// Longer names come from no person's typing, and the work grows with the product of the lengths.
constexpr std::size_t kLongestName = 128;

/// Edit distance with swaps of neighbours, row by row over `a`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view unknown, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t best_distance = kLongestName;
  if (unknown.empty() || unknown.size() > kLongestName) return {};
  for (const std::string_view name : known) {
    if (name.size() > kLongestName) continue;
    const std::size_t limit = std::max<std::size_t>(2, std::max(name.size(), unknown.size()) / 3);
    const auto [shorter, longer] = std::minmax({name.size(), unknown.size()});
    if (longer - shorter > limit) continue;  // The distance is at least that.
    const std::size_t distance = edit_distance(unknown, name);
    // A distance as long as the name shares nothing with it.
    if (distance > limit || distance >= name.size() || distance >= best_distance) continue;
    best = name;
    best_distance = distance;
  }
  return std::string(best);
}

std::string did_you_mean(std::string_view unknown, std::span<const std::string_view> known) {
  const std::string name = nearest(unknown, known);
  return name.empty() ? std::string() : "; did you mean '" + name + "'?";
}

}  // namespace sluice::base
