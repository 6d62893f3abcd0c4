#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::runtime {

/// Implementations that were chosen by measuring: for each problem met, described in a line of
/// text, the name of the fastest. A Context hands it to whoever chooses; a training run keeps it
/// with its state, so that a resumed run computes the same bits.
class Tuning {
 public:
  using Choices = std::map<std::string, std::string>;

  Tuning() = default;
  explicit Tuning(Choices choices) : choices_(std::move(choices)) {}

  /// Null if the problem was not measured yet.
  const std::string* find(const std::string& problem) const {
    const auto found = choices_.find(problem);
    return found == choices_.end() ? nullptr : &found->second;
  }
  void record(const std::string& problem, std::string_view implementation) {
    choices_[problem] = implementation;
  }
  const Choices& choices() const { return choices_; }

 private:
  Choices choices_;
};

}  // namespace sluice::runtime
