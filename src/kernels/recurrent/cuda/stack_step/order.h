#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice::kernels::recurrent::cuda::stack_step {

/// In which order the steps of a stack run, each of one layer for some rows. A step waits for the
/// one before it in its layer, and for the same step of the layer below, of the same rows.
class StackOrder {
 public:
  struct Step {
    std::int64_t layer, first_row, number;
  };

  /// `each`: rows that a step is for; the last ones may be fewer.
  StackOrder(std::int64_t layers, std::int64_t rows, std::int64_t each, std::int64_t time)
      : time_(time) {
    for (std::int64_t row = 0; row < rows; row += each) {
      for (std::int64_t layer = layers - 1; layer >= 0; --layer) next_.push_back({layer, row, 0});
    }
  }

  /// Up to `most` steps that wait for none that is still to come: those that are behind the others.
  /// None when all have run.
  std::vector<Step> next(std::int64_t most) {
    std::vector<Step*> ready;
    for (std::size_t i = 0; i < next_.size(); ++i) {
      const bool waits = next_[i].layer > 0 && next_[i + 1].number <= next_[i].number;
      if (next_[i].number < time_ && !waits) ready.push_back(&next_[i]);
    }
    std::stable_sort(ready.begin(), ready.end(), [](const Step* a, const Step* b) {
      return a->layer + a->number < b->layer + b->number;
    });
    if (static_cast<std::int64_t>(ready.size()) > most) {
      ready.resize(static_cast<std::size_t>(most));
    }
    std::vector<Step> steps;
    for (Step* step : ready) {
      steps.push_back(*step);
      ++step->number;
    }
    return steps;
  }

 private:
  std::int64_t time_;
  std::vector<Step> next_;  ///< of each layer, of the same rows from the top layer on
};

}  // namespace sluice::kernels::recurrent::cuda::stack_step
