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
    distributed::HeldMemory held(*window_, context, owner);
    put(context, owner);
    held.release();
  }
  ranks_->exchange("");
  if (ranks_->rank() != 0) read(context);
}

void SharedParameters::read(const Context& context) {
  for (std::int64_t owner = 0; owner < ranks(); ++owner) {
    distributed::HeldMemory held(*window_, context, owner);
    get(context, owner);
    held.release();
  }
}

void SharedParameters::get(const Context& context, std::int64_t owner) {
  each_arena(owner, [&](std::size_t offset, const Tensor& values) {
    window_->get(context, owner, offset, values);
  });
}

void SharedParameters::put(const Context& context, std::int64_t owner) {
  each_arena(owner, [&](std::size_t offset, const Tensor& values) {
    window_->put(context, owner, offset, values);
  });
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

// A rank that found the last step may have drawn one beyond it before another closed.
std::int64_t SharedParameters::end(const Context& context, std::optional<std::int64_t> last) {
  if (closed_at_) last = last ? std::min(*last, *closed_at_) : closed_at_;
  std::optional<std::int64_t> first;
  for (const std::string& told : ranks_->exchange(last ? std::to_string(*last) : "")) {
    if (told.empty()) continue;
    const std::int64_t one = std::stoll(told);
    first = first ? std::min(*first, one) : one;
  }
  SLUICE_ASSERT(first.has_value());
  read(context);
  return *first;
}

// Ranks begin with their own parts, so that they seldom wait for one.
void SharedParameters::update(const Context& context, const Optimizer& optimizer,
                              const Tensor& step, const Tensor& learning_rate) {
  const runtime::Span span(context, "distributed", "shared parameters");
  // Else the first part would be held while this rank still computes its gradient.
  context.synchronize();
  Age age;
  for (std::int64_t i = 0; i < ranks(); ++i) {
    const std::int64_t owner = (ranks_->rank() + i) % ranks();
    std::int64_t& seen = seen_[static_cast<std::size_t>(owner)];
    distributed::HeldMemory held(*window_, context, owner);
    get(context, owner);
    const std::int64_t version = window_->add(version_of(owner), 0);
    const std::int64_t staleness = version - seen;
    age.staleness += staleness;
    seen = version;
    if (staleness > most_staleness_) {
      ++age.dropped;
    } else {
      optimizer.apply(context, part_of(owner), step, learning_rate);
      put(context, owner);
      seen = window_->add(version_of(owner), 1) + 1;
    }
    held.release();
  }
  uncounted_.push_back(age);
}

// The step is counted last and read first: whoever reads it finds the rest of it.
void SharedParameters::count(std::int64_t source_tokens, std::int64_t target_tokens, double loss) {
  SLUICE_ASSERT(!uncounted_.empty());
  count(kLoss, std::llround(loss / kLossUnit));
  count(kSourceTokens, source_tokens);
  count(kTargetTokens, target_tokens);
  count(kStaleness, uncounted_.front().staleness);
  count(kDropped, uncounted_.front().dropped);
  count(kSteps, 1);
  uncounted_.pop_front();
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
