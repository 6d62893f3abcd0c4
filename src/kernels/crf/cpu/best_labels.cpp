#include <algorithm>

#include "base/dtype.h"
#include "kernels/crf/cpu/crf.h"
#include "kernels/crf/cpu/scores.h"
#include "kernels/crf/workspace.h"

namespace sluice::kernels::crf::cpu {
namespace {

/// The first of the largest values(0) .. values(count - 1), and the value.
template <typename Values>
std::int64_t first_largest(std::int64_t count, const Values& values, double& largest) {
  std::int64_t at = 0;
  largest = values(0);
  for (std::int64_t i = 1; i < count; ++i) {
    const double value = values(i);
    if (value > largest) at = i, largest = value;
  }
  return at;
}

template <typename T>
double best_of_each(const Scores<T>& s, std::int64_t row, std::int64_t length, std::int32_t* best) {
  double score = 0;
  for (std::int64_t t = 0; t < length; ++t) {
    double largest = 0;
    best[t * s.rows + row] = static_cast<std::int32_t>(first_largest(
        s.labels, [&](std::int64_t j) { return s.emission(t, row, j); }, largest));
    score += largest;
  }
  return score;
}

/// to[j] = emission of j + max over i of (from[i] + transition from i to j)
template <typename T>
void step(const Scores<T>& s, const double* from, const T* emissions, double* to) {
  const std::int64_t labels = s.labels;
  for (std::int64_t j = 0; j < labels; ++j) to[j] = from[0] + s.transition(0, j);
  for (std::int64_t i = 1; i < labels; ++i) {
    const T* transitions = s.transitions + i * labels;
    for (std::int64_t j = 0; j < labels; ++j) {
      to[j] = std::max(to[j], from[i] + static_cast<double>(transitions[j]));
    }
  }
  for (std::int64_t j = 0; j < labels; ++j) to[j] += static_cast<double>(emissions[j]);
}

template <typename T>
double best_of_chain(const Scores<T>& s, std::int64_t row, std::int64_t length, double* viterbi,
                     std::int32_t* best) {
  double* first = viterbi + s.cell(0, row);
  for (std::int64_t j = 0; j < s.labels; ++j) {
    first[j] = static_cast<double>(s.start[j]) + s.emission(0, row, j);
  }
  for (std::int64_t t = 1; t < length; ++t) {
    const std::int64_t cell = s.cell(t, row);
    step(s, viterbi + s.cell(t - 1, row), s.emissions + cell, viterbi + cell);
  }
  // Who came before is looked for again, on the best path alone, rather than kept for every label.
  double score = 0, unused = 0;
  const double* last = viterbi + s.cell(length - 1, row);
  std::int64_t label = first_largest(
      s.labels, [&](std::int64_t j) { return last[j] + static_cast<double>(s.end[j]); }, score);
  for (std::int64_t t = length - 1; t > 0; --t) {
    best[t * s.rows + row] = static_cast<std::int32_t>(label);
    const double* from = viterbi + s.cell(t - 1, row);
    label = first_largest(
        s.labels, [&](std::int64_t i) { return from[i] + s.transition(i, label); }, unused);
  }
  best[row] = static_cast<std::int32_t>(label);
  return score;
}

template <typename T>
void run(const BestLabelsArgs& args) {
  const Scores<T> scores(args);
  const Workspace workspace(args.workspace, args.time, args.rows, scores.labels, false, false);
  auto* best = args.best.data_as<std::int32_t>();
  auto* sums = args.scores.data_as<double>();
#pragma omp parallel for schedule(static, 1) if (scores.worth_threads())
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const double score = best_of_row(scores, row, workspace.viterbi, best);
    if (sums != nullptr) sums[row] = score;
  }
}

}  // namespace

template <typename T>
double best_of_row(const Scores<T>& scores, std::int64_t row, double* viterbi, std::int32_t* best) {
  const std::int64_t length = scores.length(row);
  for (std::int64_t t = length; t < scores.time; ++t) best[t * scores.rows + row] = 0;
  if (length == 0) return 0;
  return scores.transitions == nullptr ? best_of_each(scores, row, length, best)
                                       : best_of_chain(scores, row, length, viterbi, best);
}

template double best_of_row(const Scores<float>&, std::int64_t, double*, std::int32_t*);
template double best_of_row(const Scores<double>&, std::int64_t, double*, std::int32_t*);

void best_labels(Stream& stream, const BestLabelsArgs& args) {
  base::dispatch_master(args.emissions.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { run<T>(args); });
  });
}

}  // namespace sluice::kernels::crf::cpu
