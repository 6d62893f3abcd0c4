#include "data/length_buckets.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace sluice::data {
namespace {

/// A plan packs the model's weights: more buckets than this brings are not worth it.
constexpr std::int64_t kShort = 32;

/// The lengths above half of what this returns, up to it, share a bucket.
std::int64_t bucket_limit(std::int64_t length) {
  std::int64_t limit = kShort;
  while (limit < length) limit *= 2;
  return limit;
}

}  // namespace

std::vector<LengthBucket> length_buckets(std::span<const std::int64_t> lengths,
                                         std::int64_t max_rows, std::int64_t max_tokens) {
  SLUICE_CHECK(max_rows > 0 && max_tokens > 0, "a batch needs room: max_rows is {}, max_tokens {}",
               max_rows, max_tokens);
  const auto length_of = [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
  std::vector<std::int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return length_of(a) > length_of(b); });

  std::vector<LengthBucket> buckets;
  std::int64_t rows = 0;  // that a batch of the current bucket may have
  for (const std::int64_t i : order) {
    const std::int64_t length = std::max<std::int64_t>(length_of(i), 1);
    if (buckets.empty() || bucket_limit(length) < bucket_limit(buckets.back().source_time)) {
      buckets.push_back({0, length, {}});
      rows = std::clamp<std::int64_t>(max_tokens / length, 1, max_rows);
    }
    LengthBucket& bucket = buckets.back();
    const auto full = [&] {
      return static_cast<std::int64_t>(bucket.batches.back().size()) == rows;
    };
    if (bucket.batches.empty() || full()) bucket.batches.emplace_back();
    bucket.batches.back().push_back(i);
    bucket.rows = std::max(bucket.rows, static_cast<std::int64_t>(bucket.batches.back().size()));
  }
  return buckets;
}

}  // namespace sluice::data
