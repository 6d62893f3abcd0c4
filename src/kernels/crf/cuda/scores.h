#pragma once

#include <cstdint>

#include "kernels/crf/crf.h"

namespace sluice::kernels::crf::cuda {

/// What sequences of labels are scored by.
template <typename T>
struct Scores {
  int time, rows, labels;
  const T* emissions;
  const T* transitions;  ///< or null, and so are the next two
  const T* start;
  const T* end;
  const std::int32_t* lengths;  ///< or null: every row has `time` steps

  template <typename Args>
  explicit Scores(const Args& args)
      : time(static_cast<int>(args.time)),
        rows(static_cast<int>(args.rows)),
        labels(static_cast<int>(args.emissions.size(2))),
        emissions(args.emissions.template data_as<const T>()),
        transitions(args.chain.transitions.template data_as<const T>()),
        start(args.chain.start.template data_as<const T>()),
        end(args.chain.end.template data_as<const T>()),
        lengths(args.lengths.template data_as<const std::int32_t>()) {}

  __device__ int length(int row) const {
    return lengths == nullptr ? time : max(0, min(lengths[row], time));
  }
  /// Where the labels of a step begin in an array like the emissions.
  __host__ __device__ std::int64_t cell(int t, int row) const {
    return (std::int64_t{t} * rows + row) * labels;
  }
  __device__ double emission(int t, int row, int label) const {
    return static_cast<double>(emissions[cell(t, row) + label]);
  }
  __device__ double transition(int from, int to) const {
    return static_cast<double>(transitions[from * labels + to]);
  }
  __device__ bool is_label(std::int32_t target) const { return target >= 0 && target < labels; }
};

}  // namespace sluice::kernels::crf::cuda
