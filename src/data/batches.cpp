#include "data/batches.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "data/shuffle.h"

namespace sluice::data {
namespace {

/// Streams of the seed: the order of examples and the order of batches, an epoch each.
std::uint64_t example_stream(std::int64_t epoch) { return 2 * static_cast<std::uint64_t>(epoch); }
std::uint64_t batch_stream(std::int64_t epoch) { return example_stream(epoch) + 1; }

std::int64_t padded_tokens(const ExampleLengths& longest) {
  return longest.source + longest.target;
}

ExampleLengths longer_of(const ExampleLengths& a, const ExampleLengths& b) {
  return {std::max(a.source, b.source), std::max(a.target, b.target)};
}

void require_batchable(std::span<const ExampleLengths> lengths, const BatchOptions& options) {
  SLUICE_CHECK(options.max_tokens > 0 && options.max_rows > 0 && options.pool > 0,
               "batches need positive max_tokens, max_rows and pool, not {}, {} and {}",
               options.max_tokens, options.max_rows, options.pool);
  SLUICE_CHECK(!lengths.empty(), "there are no examples to make batches of");
  if (options.in_order > 0) return;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    SLUICE_CHECK(padded_tokens(lengths[i]) <= options.max_tokens,
                 "example {} has {} source and {} target steps, more than the {} of a whole batch",
                 i, lengths[i].source, lengths[i].target, options.max_tokens);
  }
}

/// How many neighbouring source lengths count as alike when sorting. On three data sets with 2048
/// to 8192 tokens a batch, bins of 2 and 3 padded least, a third to a half of what sorting by
/// source, then target pads; the narrower keeps the time steps of small batches fewer.
constexpr std::int64_t kSourceBin = 2;

/// Orders by bins of source length and within a bin by target length, ascending and descending by
/// turns, so that neighbours are alike on both sides also where one bin meets the next. Stable:
/// among like lengths a shuffled order stays. Bins begin at `phase`, so that their company changes.
void sort_by_length(std::span<std::int64_t> order, std::span<const ExampleLengths> lengths,
                    std::int64_t phase) {
  const auto key = [&](std::int64_t index) {
    const ExampleLengths& own = lengths[static_cast<std::size_t>(index)];
    const std::int64_t bin = (own.source + phase) / kSourceBin;
    return std::pair(bin, bin % 2 == 0 ? own.target : -own.target);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return key(a) < key(b); });
}

/// Cuts `order` where the next example would burst the batch; appends to `batches`.
void cut(std::span<const std::int64_t> order, std::span<const ExampleLengths> lengths,
         const BatchOptions& options, std::vector<BatchRows>& batches) {
  BatchRows rows;
  ExampleLengths longest;
  for (const std::int64_t index : order) {
    const ExampleLengths& own = lengths[static_cast<std::size_t>(index)];
    const ExampleLengths with = longer_of(longest, own);
    const auto count = static_cast<std::int64_t>(rows.size()) + 1;
    if (count > options.max_rows || count * padded_tokens(with) > options.max_tokens) {
      batches.push_back(std::exchange(rows, {}));
      longest = own;
    } else {
      longest = with;
    }
    rows.push_back(index);
  }
  if (!rows.empty()) batches.push_back(std::move(rows));
}

std::vector<BatchRows> in_order(std::span<const std::int64_t> order, std::int64_t rows) {
  std::vector<BatchRows> batches;
  const auto most = static_cast<std::size_t>(rows);
  for (std::size_t begin = 0; begin < order.size(); begin += most) {
    const auto part = order.subspan(begin, std::min(most, order.size() - begin));
    batches.emplace_back(part.begin(), part.end());
  }
  return batches;
}

std::vector<std::int64_t> all_indices(std::size_t count) {
  std::vector<std::int64_t> order(count);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

}  // namespace

BatchOptions in_their_order(const Examples& examples, BatchOptions options) {
  options.in_order = examples.rows_in_order();
  return options;
}

BatchOptions with_room_for(std::span<const ExampleLengths> lengths, BatchOptions options) {
  for (const ExampleLengths& own : lengths) {
    options.max_tokens = std::max(options.max_tokens, padded_tokens(own));
  }
  return options;
}

BatchSchedule::BatchSchedule(std::vector<ExampleLengths> lengths, const BatchOptions& options,
                             std::uint64_t seed)
    : lengths_(std::move(lengths)), options_(options), seed_(seed) {
  require_batchable(lengths_, options_);
}

std::vector<BatchRows> BatchSchedule::batches(std::int64_t epoch) const {
  SLUICE_CHECK(epoch >= 0, "there is no epoch {}", epoch);
  std::vector<std::int64_t> order = all_indices(lengths_.size());
  if (options_.in_order > 0) return in_order(order, options_.in_order);
  SplitMix example_random(seed_, example_stream(epoch));
  shuffle(std::span(order), example_random);
  const auto phase = static_cast<std::int64_t>(example_random.below(kSourceBin));

  std::vector<BatchRows> batches;
  const std::size_t pool =
      static_cast<std::size_t>(std::min<std::int64_t>(options_.pool, std::ssize(order)));
  for (std::size_t begin = 0; begin < order.size(); begin += pool) {
    const auto part = std::span(order).subspan(begin, std::min(pool, order.size() - begin));
    sort_by_length(part, lengths_, phase);
    cut(part, lengths_, options_, batches);
  }
  SplitMix batch_random(seed_, batch_stream(epoch));
  shuffle(std::span(batches), batch_random);
  return batches;
}

BatchBounds BatchSchedule::bounds() const {
  BatchBounds bounds;
  std::int64_t smallest = options_.max_tokens;
  for (const ExampleLengths& own : lengths_) {
    bounds.source_time = std::max(bounds.source_time, own.source);
    bounds.target_time = std::max(bounds.target_time, own.target);
    smallest = std::min(smallest, padded_tokens(own));
  }
  bounds.source_time = std::max<std::int64_t>(bounds.source_time, 1);
  bounds.rows = std::min({options_.max_rows, options_.max_tokens / smallest,
                          static_cast<std::int64_t>(lengths_.size())});
  // A batch's cells of one side leave room for at least one cell a row on the other.
  bounds.source_cells = std::min(options_.max_tokens, bounds.rows * bounds.source_time);
  bounds.target_cells = std::min(options_.max_tokens, bounds.rows * bounds.target_time);
  return bounds;
}

BatchCursor::BatchCursor(const BatchSchedule& schedule, DataPosition start)
    : schedule_(schedule), position_(start), batches_(schedule.batches(start.epoch)) {
  SLUICE_CHECK(
      start.batch >= 0 && start.batch < batches_in_epoch(),
      "the saved position is batch {} of epoch {}, but that epoch has {} batches: the data "
      "or the batch options are not those of the saved run",
      start.batch, start.epoch, batches_in_epoch());
}

const BatchRows& BatchCursor::next() {
  current_ = std::move(batches_[static_cast<std::size_t>(position_.batch)]);
  if (++position_.batch == batches_in_epoch()) {
    position_ = {position_.epoch + 1, 0};
    batches_ = schedule_.batches(position_.epoch);
  }
  return current_;
}

std::vector<BatchRows> sorted_batches(std::span<const ExampleLengths> lengths,
                                      const BatchOptions& options) {
  require_batchable(lengths, options);
  std::vector<std::int64_t> order = all_indices(lengths.size());
  if (options.in_order > 0) return in_order(order, options.in_order);
  sort_by_length(order, lengths, 0);
  std::reverse(order.begin(), order.end());
  std::vector<BatchRows> batches;
  cut(order, lengths, options, batches);
  return batches;
}

}  // namespace sluice::data
