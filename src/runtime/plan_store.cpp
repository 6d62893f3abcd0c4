#include "runtime/plan_store.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "runtime/span.h"

namespace sluice::runtime {

std::int64_t round_to_few(std::int64_t size) {
  constexpr std::int64_t kHalves = 8;  // from here on there is one size between powers of two
  if (size <= 1) return size;
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(size)));
  const std::int64_t less = power / 4 * 3;
  return power > kHalves && size <= less ? less : power;
}

void* PlanStore::find_or_make(const Context& context, const std::string& key,
                              const std::function<std::shared_ptr<void>(ArenaPlanner&)>& make) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    fit_arena(context.device(), entries_.front());
    return entries_.front().plan.get();
  }
  const Span span(context, "plan");
  ArenaPlanner planner = weights_ == Weights::kKept ? ArenaPlanner(packed_) : ArenaPlanner();
  std::shared_ptr<void> plan = make(planner);
  entries_.push_front({key, std::move(plan), planner.saved_total(), planner.scratch_total(),
                       planner.packed_total()});
  ++made_;
  // What must go, goes before memory is taken.
  trim_to(1);
  try {
    planner.take_packed(context.device());
  } catch (const Error&) {
    clear();
    throw;
  }
  fit_arena(context.device(), entries_.front());
  return entries_.front().plan.get();
}

void PlanStore::fit_arena(Device& device, const Entry& entry) {
  if (entry.saved <= arena_.saved_bytes() && entry.scratch <= arena_.scratch_bytes()) return;
  std::size_t saved = 0, scratch = 0;
  for (const Entry& one : entries_) {
    saved = std::max(saved, one.saved);
    scratch = std::max(scratch, one.scratch);
  }
  // The old one goes first, or both would have to fit at once.
  arena_ = Arena();
  try {
    arena_ = Arena(device, saved, scratch);
  } catch (const Error&) {
    clear();
    throw;
  }
}

std::size_t PlanStore::needed() const {
  std::size_t saved = 0, scratch = 0;
  for (const Entry& entry : entries_) {
    saved = std::max(saved, entry.saved);
    scratch = std::max(scratch, entry.scratch);
  }
  return saved + scratch + packed_.bytes();
}

void PlanStore::trim_to(std::size_t fewest) {
  if (most_bytes_ == kNoBound) return;
  const auto is_too_large = [&](const Entry& entry) {
    return entry.saved + entry.scratch + entry.packed > most_bytes_;
  };
  const auto first =
      std::next(entries_.begin(), static_cast<std::ptrdiff_t>(std::min(fewest, entries_.size())));
  // Whatever goes beside one that doesn't fit alone, that one goes later.
  const bool exceeds = std::any_of(entries_.begin(), first, is_too_large);
  entries_.erase(std::remove_if(first, entries_.end(), is_too_large), entries_.end());
  while (entries_.size() > fewest &&
         (entries_.size() > kMostPlans || (!exceeds && needed() > most_bytes_))) {
    entries_.pop_back();
  }
  if (bytes() > needed()) arena_ = Arena();
}

void PlanStore::trim() { trim_to(0); }

void PlanStore::clear() {
  entries_.clear();
  arena_ = Arena();
}

void PlanStore::with_room(const std::function<void()>& work) {
  const bool holds_memory = bytes() > 0;
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory || !holds_memory) throw;
  }
  clear();
  work();
}

std::size_t PlanStore::bytes() const {
  return arena_.saved_bytes() + arena_.scratch_bytes() + packed_.bytes();
}

}  // namespace sluice::runtime
