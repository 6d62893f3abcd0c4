#include "oracle/crf.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "oracle/size_check.h"

namespace sluice::oracle {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

void check(const CrfSequence& s) {
  if (s.labels < 1) fail("a CRF needs labels");
  check_size("emissions", s.emissions.size(), s.time() * s.labels);
  check_size("transitions", s.transitions.size(), s.labels * s.labels);
  check_size("start", s.start.size(), s.labels);
  check_size("end", s.end.size(), s.labels);
}

CrfResult zeros_like(const CrfSequence& s) {
  CrfResult result;
  result.marginals.labels = s.labels;
  result.marginals.emissions.resize(s.emissions.size());
  result.marginals.transitions.resize(s.transitions.size());
  result.marginals.start.resize(s.start.size());
  result.marginals.end.resize(s.end.size());
  return result;
}

double log_sum(const std::vector<double>& values) {
  const double top = *std::max_element(values.begin(), values.end());
  if (top == kImpossible) return top;
  double sum = 0;
  for (const double value : values) sum += std::exp(value - top);
  return top + std::log(sum);
}

/// All paths, in the order of the last label, then the one before it, and so on.
void for_each_path(const CrfSequence& s, const std::function<void(const std::vector<int>&)>& use) {
  std::vector<int> path(s.time(), 0);
  while (true) {
    use(path);
    size_t t = 0;
    while (t < path.size() && ++path[t] == s.labels) path[t++] = 0;
    if (t == path.size()) return;
  }
}

}  // namespace

double CrfSequence::score(const std::vector<int>& path) const {
  if (path.empty()) return 0;
  double sum = start[path.front()] + end[path.back()];
  for (size_t t = 0; t < path.size(); ++t) {
    sum += emissions[t * labels + path[t]];
    if (t > 0) sum += transitions[path[t - 1] * labels + path[t]];
  }
  return sum;
}

CrfResult crf_by_enumeration(const CrfSequence& s) {
  check(s);
  CrfResult result = zeros_like(s);
  if (s.time() == 0) return result;
  std::vector<double> scores;
  for_each_path(s, [&](const std::vector<int>& path) { scores.push_back(s.score(path)); });
  result.log_z = log_sum(scores);
  for_each_path(s, [&](const std::vector<int>& path) {
    const double p = std::exp(s.score(path) - result.log_z);
    result.marginals.start[path.front()] += p;
    result.marginals.end[path.back()] += p;
    for (size_t t = 0; t < path.size(); ++t) {
      result.marginals.emissions[t * s.labels + path[t]] += p;
      if (t > 0) result.marginals.transitions[path[t - 1] * s.labels + path[t]] += p;
    }
  });
  return result;
}

CrfResult crf(const CrfSequence& s) {
  check(s);
  CrfResult result = zeros_like(s);
  const int64_t time = s.time(), labels = s.labels;
  if (time == 0) return result;
  std::vector<double> forward(time * labels), backward(time * labels), terms(labels);
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t j = 0; j < labels; ++j) {
      for (int64_t i = 0; t > 0 && i < labels; ++i) {
        terms[i] = forward[(t - 1) * labels + i] + s.transitions[i * labels + j];
      }
      forward[t * labels + j] =
          s.emissions[t * labels + j] + (t == 0 ? s.start[j] : log_sum(terms));
    }
  }
  for (int64_t t = time - 1; t >= 0; --t) {
    for (int64_t i = 0; i < labels; ++i) {
      for (int64_t j = 0; t + 1 < time && j < labels; ++j) {
        const int64_t next = (t + 1) * labels + j;
        terms[j] = s.transitions[i * labels + j] + s.emissions[next] + backward[next];
      }
      backward[t * labels + i] = t + 1 == time ? s.end[i] : log_sum(terms);
    }
  }
  for (int64_t j = 0; j < labels; ++j) terms[j] = forward[(time - 1) * labels + j] + s.end[j];
  result.log_z = log_sum(terms);
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t j = 0; j < labels; ++j) {
      const int64_t here = t * labels + j;
      const double p = std::exp(forward[here] + backward[here] - result.log_z);
      result.marginals.emissions[here] = p;
      if (t == 0) result.marginals.start[j] = p;
      if (t + 1 == time) result.marginals.end[j] = p;
      for (int64_t i = 0; t > 0 && i < labels; ++i) {
        result.marginals.transitions[i * labels + j] +=
            std::exp(forward[(t - 1) * labels + i] + s.transitions[i * labels + j] +
                     s.emissions[here] + backward[here] - result.log_z);
      }
    }
  }
  return result;
}

std::vector<int> best_path_by_enumeration(const CrfSequence& s) {
  check(s);
  std::vector<int> best;
  double top = kImpossible;
  for_each_path(s, [&](const std::vector<int>& path) {
    if (!best.empty() && s.score(path) <= top) return;
    best = path;
    top = s.score(path);
  });
  return best;
}

std::vector<int> best_path(const CrfSequence& s) {
  check(s);
  const int64_t time = s.time(), labels = s.labels;
  if (time == 0) return {};
  std::vector<double> score(labels);
  std::vector<std::vector<int>> before(time, std::vector<int>(labels));
  for (int64_t j = 0; j < labels; ++j) score[j] = s.start[j] + s.emissions[j];
  for (int64_t t = 1; t < time; ++t) {
    std::vector<double> next(labels, kImpossible);
    for (int64_t j = 0; j < labels; ++j) {
      for (int64_t i = 0; i < labels; ++i) {
        const double value = score[i] + s.transitions[i * labels + j];
        if (value > next[j]) next[j] = value, before[t][j] = static_cast<int>(i);
      }
      next[j] += s.emissions[t * labels + j];
    }
    score = next;
  }
  for (int64_t j = 0; j < labels; ++j) score[j] += s.end[j];
  std::vector<int> path(time);
  path.back() = static_cast<int>(std::max_element(score.begin(), score.end()) - score.begin());
  for (int64_t t = time - 1; t > 0; --t) path[t - 1] = before[t][path[t]];
  return path;
}

}  // namespace sluice::oracle
