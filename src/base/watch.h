#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::base {

/// Told of work that takes a while: what is being done, and the share of it that is done, in
/// [0, 1]; negative where nobody knows. An empty one is told nothing.
using Watch = std::function<void(std::string_view what, double done)>;

inline constexpr double kNobodyKnows = -1;

/// Tells a Watch how work on many items gets on, about a thousand times in all.
class WatchedItems {
 public:
  /// `watch` must outlive this.
  WatchedItems(const Watch& watch, std::string what, std::int64_t items)
      : watch_(watch), what_(std::move(what)), items_(items) {
    if (watch_ && items_ > 0) watch_(what_, 0);
  }

  void one_done() {
    ++done_;
    if (!watch_ || done_ % (items_ / 1000 + 1) != 0) return;
    watch_(what_, static_cast<double>(done_) / static_cast<double>(items_));
  }

 private:
  const Watch& watch_;
  std::string what_;
  std::int64_t items_;
  std::int64_t done_ = 0;
};

}  // namespace sluice::base
