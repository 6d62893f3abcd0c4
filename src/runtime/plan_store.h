#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <string>

#include "runtime/arena.h"
#include "runtime/context.h"

namespace sluice::runtime {

/// `size`, rounded up to one of few: 1, 2, 4, 8, 12, 16, 24, 32, 48, .. Capacities that are rounded
/// so are shared by calls of like extent, and at most a third of them is spare above 8.
std::int64_t round_to_few(std::int64_t size);

/// The plans of one model, kept from call to call. They never run at the same time, so they share
/// one arena, which grows to the largest. Their packed weights lie in memory of their own and stay
/// packed as long as a plan that reads them is kept. Whatever a plan holds beside (graphs of steps,
/// say) lives as long as the plan. One thread at a time.
class PlanStore {
 public:
  static constexpr std::size_t kNoBound = std::numeric_limits<std::size_t>::max();
  /// More plans than this are never kept: what plans hold beside arena and weights isn't counted.
  static constexpr std::size_t kMostPlans = 64;

  /// Where weights lie: in memory of their own, or in the arena, where every run packs them.
  enum class Weights { kKept, kPackedEachRun };

  /// Keeps at most `most_bytes` of the device's memory from call to call.
  explicit PlanStore(std::size_t most_bytes, Weights weights = Weights::kKept)
      : most_bytes_(most_bytes), weights_(weights) {}

  /// The plan of that key, made with `make` if it isn't kept; the key must name the type too. It
  /// stays at least until the next call of `plan`, `trim` or `clear`. Throws
  /// ErrorCode::kOutOfMemory with nothing kept if its memory can't be had.
  template <typename Plan>
  Plan& plan(const Context& context, const std::string& key,
             const std::function<std::unique_ptr<Plan>(ArenaPlanner&)>& make) {
    return *static_cast<Plan*>(find_or_make(
        context, key,
        [&](ArenaPlanner& planner) -> std::shared_ptr<void> { return make(planner); }));
  }

  /// Of all plans, with room for the one asked for last. It stays where it is; its memory doesn't.
  const Arena& arena() const { return arena_; }
  /// For plans that have an arena of their own but share weights with those that are kept.
  PackedWeights& weights() { return packed_; }

  /// Drops the plans that were not used for longest until what is left is within the bounds. To be
  /// called when no plan is in use.
  void trim();
  void clear();

  /// Does `work`. If memory runs out, drops all that is kept, which `work` may not hold on to, and
  /// does it once more.
  void with_room(const std::function<void()>& work);

  /// Of the device, that are held now.
  std::size_t bytes() const;
  std::size_t plans() const { return entries_.size(); }
  std::int64_t plans_made() const { return made_; }
  std::int64_t packs() const { return packed_.packs(); }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<void> plan;
    std::size_t saved = 0, scratch = 0;  ///< of the arena
    std::size_t packed = 0;              ///< weights, shared ones too
  };

  void* find_or_make(const Context& context, const std::string& key,
                     const std::function<std::shared_ptr<void>(ArenaPlanner&)>& make);
  void fit_arena(Device& device, const Entry& entry);
  /// What bytes() are when the arena fits the plans.
  std::size_t needed() const;
  /// `trim`, but for the `fewest` used last.
  void trim_to(std::size_t fewest);

  std::size_t most_bytes_;
  Weights weights_;
  PackedWeights packed_;
  Arena arena_;
  std::list<Entry> entries_;  ///< used last first
  std::int64_t made_ = 0;
};

}  // namespace sluice::runtime
