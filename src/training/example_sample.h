#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "data/shuffle.h"

namespace sluice::training {

/// Some of a stream of examples, each as likely as any other, in their order; all, if the stream
/// has no more than `most` (Vitter's algorithm R, 1985). Which ones follows from `seed`.
template <typename Example>
class ExampleSample {
 public:
  ExampleSample(std::int64_t most, std::uint64_t seed) : most_(most), random_(seed) {}

  void add(Example example) {
    const std::int64_t index = seen_++;
    if (std::ssize(kept_) < most_) {
      kept_.emplace_back(index, std::move(example));
      return;
    }
    const auto place = random_.below(static_cast<std::uint64_t>(seen_));
    if (place < kept_.size()) kept_[place] = {index, std::move(example)};
  }

  std::vector<Example> take() {
    std::sort(kept_.begin(), kept_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Example> examples;
    for (auto& [index, example] : kept_) examples.push_back(std::move(example));
    kept_.clear();
    return examples;
  }

 private:
  std::int64_t most_;
  data::SplitMix random_;
  std::int64_t seen_ = 0;
  std::vector<std::pair<std::int64_t, Example>> kept_;
};

}  // namespace sluice::training
