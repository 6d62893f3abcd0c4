#include "training/ranks/shared_parameters.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/gradient_marks.h"
#include "runtime/span.h"

namespace sluice::training {
namespace {

// The numbers of the window: the step to draw, a version of each part, totals of each rank.
constexpr std::size_t kStep = 0;
constexpr std::size_t kVersions = 1;
enum Total : std::size_t {
  kSteps,
  kSourceTokens,
  kTargetTokens,
  kLoss,
  kStaleness,
  kDropped,
  kTotals
};
constexpr double kLossUnit = 1.0 / (1 << 20);

/// Beyond any step.
constexpr std::int64_t kClosed = std::int64_t{1} << 48;

}  // namespace

RankTotals RankTotals::since(const RankTotals& before) const {
  return {steps - before.steps,
          source_tokens - before.source_tokens,
          target_tokens - before.target_tokens,
          loss - before.loss,
          staleness - before.staleness,
          dropped - before.dropped};
}

SharedParameters::SharedParameters(const Context& context, distributed::Communicator& ranks,
                                   const layers::Parameters& parameters, const Optimizer& optimizer,
                                   std::int64_t most_staleness)
    : ranks_(&ranks),
      arenas_{parameters.values()},
      part_(parameters.flat_size() / kernels::kElementsPerMark / ranks.size() *
            kernels::kElementsPerMark),
      most_staleness_(most_staleness),
      seen_(static_cast<std::size_t>(ranks.size())) {
  for (const Tensor& tensor : optimizer.state()) {
    if (tensor.shape() == parameters.values().shape()) arenas_.push_back(tensor);
  }
  const distributed::Share last = part_of(ranks.size() - 1);
  const auto count = static_cast<std::size_t>(ranks.size());
  window_ = ranks.open_window(
      context, arenas_.size() * static_cast<std::size_t>(last.end - last.begin) * sizeof(float),
      kVersions + count + count * kTotals);
  share_first(context);
}

void SharedParameters::share_first(const Context& context) {
  for (std::int64_t owner = 0; owner < ranks() && ranks_->rank() == 0; ++owner) {
    window_->lock(owner);
    each_arena(owner, [&](std::size_t offset, const Tensor& values) {
      window_->put(context, owner, offset, values);
    });
    window_->unlock(context, owner);
  }
  ranks_->exchange("");
  if (ranks_->rank() != 0) read(context);
}

void SharedParameters::read(const Context& context) {
  for (std::int64_t owner = 0; owner < ranks(); ++owner) {
    window_->lock(owner);
    each_arena(owner, [&](std::size_t offset, const Tensor& values) {
      window_->get(context, owner, offset, values);
    });
    window_->unlock(context, owner);
  }
}

distributed::Share SharedParameters::part_of(std::int64_t owner) const {
  const std::int64_t all = arenas_.front().element_count();
  return {owner * part_, owner + 1 == ranks() ? all : (owner + 1) * part_};
}

/// Calls copy(offset in the owner's memory, part of the arena) for each of them.
template <typename Copy>
void SharedParameters::each_arena(std::int64_t owner, const Copy& copy) const {
  const distributed::Share part = part_of(owner);
  std::size_t offset = 0;
  for (const Tensor& arena : arenas_) {
    const Tensor values = arena.slice(0, part.begin, part.end);
    if (part.begin < part.end) copy(offset, values);
    offset += values.byte_size();
  }
}

std::size_t SharedParameters::version_of(std::int64_t owner) const {
  return kVersions + static_cast<std::size_t>(owner);
}

std::size_t SharedParameters::total_of(std::int64_t rank, std::size_t which) const {
  return kVersions + static_cast<std::size_t>(ranks()) + static_cast<std::size_t>(rank) * kTotals +
         which;
}

void SharedParameters::begin(std::int64_t step) {
  ranks_->exchange("");  // all have drawn their last
  if (ranks_->rank() == 0) window_->add(kStep, step + 1 - window_->add(kStep, 0));
  for (std::int64_t owner = 0; owner < ranks(); ++owner) {
    seen_[static_cast<std::size_t>(owner)] = window_->add(version_of(owner), 0);
  }
  closed_at_.reset();
  ranks_->exchange("");
}

std::optional<std::int64_t> SharedParameters::draw() {
  const std::int64_t step = window_->add(kStep, 1);
  return step < kClosed ? std::optional(step) : std::nullopt;
}

void SharedParameters::close() {
  const std::int64_t next = window_->add(kStep, kClosed);
  if (next < kClosed) closed_at_ = next - 1;
}

std::int64_t SharedParameters::end(const Context& context, std::int64_t last) {
  for (const std::string& at : ranks_->exchange(closed_at_ ? std::to_string(*closed_at_) : "")) {
    if (!at.empty()) last = std::min<std::int64_t>(last, std::stoll(at));
  }
  read(context);
  return last;
}

// Ranks begin with their own parts, so that they seldom wait for one.
void SharedParameters::update(const Context& context, const Optimizer& optimizer,
                              const Tensor& step, const Tensor& learning_rate) {
  const runtime::Span span(context, "distributed", "shared parameters");
  for (std::int64_t i = 0; i < ranks(); ++i) {
    const std::int64_t owner = (ranks_->rank() + i) % ranks();
    std::int64_t& seen = seen_[static_cast<std::size_t>(owner)];
    window_->lock(owner);
    each_arena(owner, [&](std::size_t offset, const Tensor& values) {
      window_->get(context, owner, offset, values);
    });
    const std::int64_t version = window_->add(version_of(owner), 0);
    const bool taken = version - seen <= most_staleness_;
    count(taken ? kStaleness : kDropped, taken ? version - seen : 1);
    seen = version;
    if (taken) {
      optimizer.apply(context, part_of(owner), step, learning_rate);
      each_arena(owner, [&](std::size_t offset, const Tensor& values) {
        window_->put(context, owner, offset, values);
      });
      seen = window_->add(version_of(owner), 1) + 1;
    }
    window_->unlock(context, owner);
  }
}

void SharedParameters::count(std::int64_t source_tokens, std::int64_t target_tokens, double loss) {
  count(kSteps, 1);
  count(kSourceTokens, source_tokens);
  count(kTargetTokens, target_tokens);
  count(kLoss, std::llround(loss / kLossUnit));
}

void SharedParameters::count(std::size_t which, std::int64_t amount) {
  window_->add(total_of(ranks_->rank(), which), amount);
}

std::vector<RankTotals> SharedParameters::totals() {
  std::vector<RankTotals> all;
  for (std::int64_t rank = 0; rank < ranks(); ++rank) {
    const auto number = [&](Total which) { return window_->add(total_of(rank, which), 0); };
    all.push_back({number(kSteps), number(kSourceTokens), number(kTargetTokens),
                   static_cast<double>(number(kLoss)) * kLossUnit, number(kStaleness),
                   number(kDropped)});
  }
  return all;
}

}  // namespace sluice::training
