#include "unit/kernels_recurrent/error_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::kernels::recurrent::testing {
namespace {

/// On CPUs with AVX2 and AVX-512 no implementation of ours takes more than .7 of a bound in some
/// thousand random cases (sluice-tests --ratios), and no planted fault passes
/// (error_bounds_test.cpp).
constexpr double kGroup = 6, kElement = 16, kGain = 6;
/// Of a part's numbers in float32, which all of our formats sum up in: a sum, an addition to what
/// was there before, a conversion.
constexpr double kSumRoundings = 4 * 0x1p-24;
/// Of a unit roundoff of the format: what activations may err by to one side.
constexpr double kBias = 0.25;
/// Of a unit roundoff of the format: what a row or step of few products errs by as a whole, since
/// its numbers share one rounded factor.
constexpr double kShared = 1.5;
/// Of all numbers in float32: the GPU's exponential errs by two units in the last place, and a gate
/// and its derivative take it several times.
constexpr double kActivations = 8 * 0x1p-24;

double square(double x) { return x * x; }

/// A mean of few errors strays as far as one of them does.
double group_factor(double count) { return kGroup + (kElement - kGroup) / std::sqrt(count); }

/// A part's numbers one by one.
class PartOfAnswer {
 public:
  PartOfAnswer(const std::vector<double>& got, const Answer& answer, const Part& part)
      : got_(got), answer_(answer), part_(part) {
    measure();
  }

  Ratios judge() const {
    Ratios ratios;
    judge_groups(
        ratios, Check::kStep, part_.steps,
        [&](std::int64_t group, std::int64_t i) { return group * line() + i; }, line());
    judge_groups(
        ratios, Check::kRow, part_.rows,
        [&](std::int64_t group, std::int64_t i) {
          return i / part_.width * line() + group * part_.width + i % part_.width;
        },
        part_.steps * part_.width);
    judge_elements(ratios);
    judge_gain(ratios);
    return ratios;
  }

 private:
  std::int64_t line() const { return part_.rows * part_.width; }
  std::size_t at(std::int64_t i) const { return static_cast<std::size_t>(part_.first + i); }
  double error(std::int64_t i) const { return got_[at(i)] - answer_.exact[at(i)]; }
  /// The number but for what it was added to.
  double signal(std::int64_t i) const {
    return answer_.exact[at(i)] - (answer_.before.empty() ? 0 : answer_.before[at(i)]);
  }
  /// The mean square of what plain implementations err by.
  double plain_square(std::int64_t i) const { return plain_squares_[static_cast<std::size_t>(i)]; }
  bool must_be_zero(std::int64_t i) const {
    return answer_.exact[at(i)] == 0 &&
           std::ranges::all_of(answer_.plain, [&](const auto& plain) { return plain[at(i)] == 0; });
  }
  double floor_of(std::int64_t i) const {
    return answer_.unit * std::abs(answer_.exact[at(i)]) +
           kSumRoundings * answer_.scale * std::sqrt(numbers_square_) +
           kShared * answer_.format_unit * std::abs(signal(i));
  }

  void measure() {
    plain_squares_.resize(static_cast<std::size_t>(part_.size()));
    for (const auto& plain : answer_.plain) {
      for (std::int64_t i = 0; i < part_.size(); ++i) {
        plain_squares_[static_cast<std::size_t>(i)] +=
            square(answer_.scale * (plain[at(i)] - answer_.exact[at(i)])) /
            static_cast<double>(answer_.plain.size());
      }
    }
    double errors = 0, signals = 0, numbers = 0;
    for (std::int64_t i = 0; i < part_.size(); ++i) {
      errors += plain_square(i);
      signals += square(signal(i));
      numbers += square(answer_.exact[at(i)]);
    }
    const auto count = static_cast<double>(part_.size());
    signals_square_ = signals / count;
    numbers_square_ = numbers / count;
    relative_ = signals > 0 ? std::sqrt(errors / signals) : 0;
  }

  std::string place(std::int64_t i) const {
    return fmt::format("{}step {}, row {}, unit {}: {} instead of {}", part_.name, i / line(),
                       i / part_.width % part_.rows, i % part_.width, got_[at(i)],
                       answer_.exact[at(i)]);
  }

  template <typename Index>
  void judge_groups(Ratios& ratios, Check check, std::int64_t groups, const Index& index,
                    std::int64_t count) const {
    for (std::int64_t group = 0; group < groups; ++group) {
      double errors = 0, plain = 0, signals = 0, floor = 0;
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t i = index(group, k);
        errors += square(error(i));
        plain += plain_square(i);
        signals += square(signal(i));
        floor += square(floor_of(i));
      }
      const auto n = static_cast<double>(count);
      const double bound =
          group_factor(n) * (std::sqrt(plain / n) + relative_ * std::sqrt(signals / n)) +
          std::sqrt(floor / n);
      note(ratios, check, std::sqrt(errors / n), bound, [&] {
        return fmt::format("{}{} {}", part_.name, kCheckNames[static_cast<int>(check)], group);
      });
    }
  }

  void judge_elements(Ratios& ratios) const {
    for (std::int64_t first = 0; first < part_.size(); first += part_.width) {
      double plain = 0, signals = 0;
      for (std::int64_t i = first; i < first + part_.width; ++i) {
        plain += plain_square(i);
        signals += square(signal(i));
      }
      const auto n = static_cast<double>(part_.width);
      for (std::int64_t i = first; i < first + part_.width; ++i) {
        if (must_be_zero(i)) {
          // A ReLU's zero may lie just above it; where the whole line is zero, nothing may.
          note(ratios, Check::kElement, std::abs(error(i)),
               answer_.format_unit * std::sqrt(signals / n), [&] { return place(i); });
          continue;
        }
        const double size = std::max(std::abs(signal(i)), std::sqrt(signals / n));
        const double bound =
            kElement * (std::sqrt(plain / n + plain_square(i)) + relative_ * size) + floor_of(i) +
            kBias * answer_.format_unit * size;
        note(ratios, Check::kElement, std::abs(error(i)), bound, [&] { return place(i); });
      }
    }
  }

  /// Of numbers `values`: how much too large they are on the whole.
  double gain_of(const std::vector<double>& values) const {
    double product = 0;
    for (std::int64_t i = 0; i < part_.size(); ++i) {
      product += (values[at(i)] - answer_.exact[at(i)]) * signal(i);
    }
    return product / (signals_square_ * static_cast<double>(part_.size()));
  }
  void judge_gain(Ratios& ratios) const {
    if (signals_square_ == 0) return;
    double plain = 0;
    for (const auto& one : answer_.plain) plain += square(answer_.scale * gain_of(one));
    plain /= static_cast<double>(answer_.plain.size());
    // Independent errors have a gain of their own, of which a few draws say little.
    const double independent = square(relative_) / static_cast<double>(part_.size());
    const double floor =
        kSumRoundings * answer_.scale * std::sqrt(numbers_square_ / signals_square_) +
        kActivations * answer_.scale + kBias * answer_.format_unit;
    note(ratios, Check::kGain, std::abs(gain_of(got_)),
         kGain * std::sqrt(plain + independent) + floor, [&] {
           return fmt::format("{}is too large by a factor of 1 + {}", part_.name, gain_of(got_));
         });
  }

  template <typename Where>
  static void note(Ratios& ratios, Check check, double error, double bound, const Where& where) {
    if (error == 0) return;
    const double ratio =
        std::isfinite(error) && bound > 0 ? error / bound : std::numeric_limits<double>::infinity();
    if (ratio > ratios.worst[static_cast<std::size_t>(check)]) ratios.note(check, ratio, where());
  }

  const std::vector<double>& got_;
  const Answer& answer_;
  const Part& part_;
  std::vector<double> plain_squares_;
  double signals_square_ = 0, numbers_square_ = 0, relative_ = 0;
};

}  // namespace

void Ratios::note(Check check, double ratio, const std::string& at) {
  const auto i = static_cast<std::size_t>(check);
  if (!(ratio > worst[i])) return;
  worst[i] = ratio;
  where[i] = at;
}

void Ratios::merge(const Ratios& other, const std::string& name) {
  for (std::size_t i = 0; i < worst.size(); ++i) {
    note(static_cast<Check>(i), other.worst[i], name + ": " + other.where[i]);
  }
}

double Ratios::largest() const { return *std::ranges::max_element(worst); }

Ratios judge(const std::vector<double>& got, const Answer& answer) {
  Ratios ratios;
  for (const Part& part : answer.parts) {
    const Ratios own = PartOfAnswer(got, answer, part).judge();
    for (std::size_t i = 0; i < own.worst.size(); ++i) {
      ratios.note(static_cast<Check>(i), own.worst[i], own.where[i]);
    }
  }
  return ratios;
}

}  // namespace sluice::kernels::recurrent::testing
