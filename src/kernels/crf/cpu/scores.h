#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/crf/crf.h"

namespace sluice::kernels::crf::cpu {

/// Below this many elements threads cost more than they bring.
inline constexpr std::int64_t kWorthThreads = 16384;

/// What sequences of labels are scored by.
template <typename T>
struct Scores {
  std::int64_t time, rows, labels;
  const T* emissions;
  const T* transitions;  ///< or null, and so are the next two
  const T* start;
  const T* end;
  const std::int32_t* lengths;  ///< or null: every row has `time` steps

  template <typename Args>
  explicit Scores(const Args& args)
      : time(args.time),
        rows(args.rows),
        labels(args.emissions.size(2)),
        emissions(args.emissions.template data_as<const T>()),
        transitions(args.chain.transitions.template data_as<const T>()),
        start(args.chain.start.template data_as<const T>()),
        end(args.chain.end.template data_as<const T>()),
        lengths(args.lengths.template data_as<const std::int32_t>()) {}

  std::int64_t length(std::int64_t row) const {
    return lengths == nullptr ? time : std::clamp<std::int64_t>(lengths[row], 0, time);
  }
  /// Where the labels of a step begin in an array like the emissions.
  std::int64_t cell(std::int64_t t, std::int64_t row) const { return (t * rows + row) * labels; }
  double emission(std::int64_t t, std::int64_t row, std::int64_t label) const {
    return static_cast<double>(emissions[cell(t, row) + label]);
  }
  double transition(std::int64_t from, std::int64_t to) const {
    return static_cast<double>(transitions[from * labels + to]);
  }
  bool worth_threads() const { return time * rows * labels * labels > kWorthThreads; }
};

/// Writes the best labels of one row, zero past its end, and returns their score. `viterbi` is
/// like the emissions; the row's own part of it is overwritten.
template <typename T>
double best_of_row(const Scores<T>& scores, std::int64_t row, double* viterbi, std::int32_t* best);

}  // namespace sluice::kernels::crf::cpu
