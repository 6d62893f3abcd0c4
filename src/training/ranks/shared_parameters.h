#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "distributed/communicator.h"
#include "layers/parameters.h"
#include "training/optimizer.h"

namespace sluice::training {

/// Counts of one rank.
struct RankTotals {
  std::int64_t steps = 0;
  std::int64_t source_tokens = 0;
  std::int64_t target_tokens = 0;
  double loss = 0;             ///< sum over target tokens, to 2^-20
  std::int64_t staleness = 0;  ///< sum over steps and parts, dropped ones too
  std::int64_t dropped = 0;    ///< parts of gradients that were too old

  /// Takes away what was there before.
  RankTotals since(const RankTotals& before) const;
};

/// Parameters and moments that all ranks step without waiting for each other. Each part of them
/// belongs to a rank's window. A rank that has gradients takes part after part, steps it and puts
/// it back; what others made of a part meanwhile is then there, too.
///
/// The staleness of a gradient is the number of steps that others made on its part since this rank
/// read the parameters. A part of a gradient that is staler than allowed is dropped.
///
/// Steps are numbered in the order in which ranks begin them. Between begin() and end() ranks draw
/// steps; both are meetings of all ranks.
class SharedParameters {
 public:
  /// All ranks must make it; they get the parameters and moments of rank 0. Throws
  /// ErrorCode::kUnsupported as Communicator::open_window. All else must outlive this.
  SharedParameters(const Context& context, distributed::Communicator& ranks,
                   const layers::Parameters& parameters, const Optimizer& optimizer,
                   std::int64_t most_staleness);

  /// The next step to be drawn is the one behind `step`.
  void begin(std::int64_t step);
  /// The number of a step that is this rank's; absent once closed.
  std::optional<std::int64_t> draw();
  /// Nobody draws any more. Steps that were drawn are done.
  void close();
  /// Once this rank draws no more: waits for all, reads all parts, and returns the last step that
  /// was done. `last` is the one that this rank stopped for; absent where it heard that draw()s
  /// were closed.
  std::int64_t end(const Context& context, std::optional<std::int64_t> last);
  /// Gives the window's memory back, after end(). All ranks must call it.
  void finish() { window_->finish(); }

  /// Steps all parts by this rank's gradients, once they are measured (Optimizer::measure), and
  /// reads them. Waits for the device.
  void update(const Context& context, const Optimizer& optimizer, const Tensor& step,
              const Tensor& learning_rate);

  /// Counts this rank's steps, in the order of their updates.
  void count(std::int64_t source_tokens, std::int64_t target_tokens, double loss);
  /// The counts of each rank since this was made, by rank. They may be some steps old.
  std::vector<RankTotals> totals();

 private:
  std::int64_t ranks() const { return ranks_->size(); }
  distributed::Share part_of(std::int64_t owner) const;
  void share_first(const Context& context);
  void read(const Context& context);
  template <typename Copy>
  void each_arena(std::int64_t owner, const Copy& copy) const;
  void get(const Context& context, std::int64_t owner);
  void put(const Context& context, std::int64_t owner);
  std::size_t version_of(std::int64_t owner) const;
  std::size_t total_of(std::int64_t rank, std::size_t which) const;
  void count(std::size_t which, std::int64_t amount);

  distributed::Communicator* ranks_;
  std::vector<Tensor> arenas_;  ///< parameters and moments
  std::int64_t part_;           ///< elements of a part; the last one has what remains, too
  std::int64_t most_staleness_;
  std::unique_ptr<distributed::Window> window_;
  std::vector<std::int64_t> seen_;  ///< version of each part that this rank has
  struct Age {
    std::int64_t staleness = 0, dropped = 0;
  };
  std::deque<Age> uncounted_;  ///< of updates that count() has not seen
  std::optional<std::int64_t> closed_at_;
};

}  // namespace sluice::training
