#include "kernels/crf/crf.h"

#include <cmath>
#include <limits>

#include "oracle/crf.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::crf {
namespace {

using base::DType;
using base::Shape;
using testing::random_values;
using testing::same_bits;
using testing::widened;

constexpr double kForbidden = -std::numeric_limits<double>::infinity();

struct Problem {
  std::int64_t time, rows, labels;
  double scale;
  std::vector<double> emissions, transitions, start, end;
  std::vector<std::int32_t> targets, lengths;

  Shape cells() const { return {time, rows, labels}; }
  std::size_t cell(std::int64_t t, std::int64_t row) const {
    return static_cast<std::size_t>((t * rows + row) * labels);
  }
  std::size_t step(std::int64_t t, std::int64_t row) const {
    return static_cast<std::size_t>(t * rows + row);
  }
  std::int64_t length(std::int64_t row) const { return lengths[static_cast<std::size_t>(row)]; }
  oracle::CrfSequence sequence(std::int64_t row) const {
    oracle::CrfSequence s{labels, {}, transitions, start, end};
    for (std::int64_t t = 0; t < length(row); ++t) {
      const auto* first = emissions.data() + cell(t, row);
      s.emissions.insert(s.emissions.end(), first, first + labels);
    }
    return s;
  }
  std::vector<int> path(std::int64_t row) const {
    std::vector<int> labels_of_row;
    for (std::int64_t t = 0; t < length(row); ++t) labels_of_row.push_back(targets[step(t, row)]);
    return labels_of_row;
  }
};

struct Expected {
  double loss = 0, counted = 0, correct = 0;
  std::vector<double> d_emissions, d_transitions, d_start, d_end;
  std::vector<std::int32_t> best;
};

void add_chain(std::vector<double>& to, const std::vector<double>& from, double factor) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

/// The definition, row by row.
Expected expect(const Problem& p, bool by_enumeration) {
  Expected e;
  e.d_emissions.assign(p.emissions.size(), 0.0);
  e.d_transitions.assign(p.transitions.size(), 0.0);
  e.d_start.assign(p.start.size(), 0.0);
  e.d_end.assign(p.end.size(), 0.0);
  e.best.assign(p.targets.size(), 0);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    if (p.length(row) == 0) continue;
    const oracle::CrfSequence s = p.sequence(row);
    const oracle::CrfResult result = by_enumeration ? crf_by_enumeration(s) : oracle::crf(s);
    const std::vector<int> best =
        by_enumeration ? best_path_by_enumeration(s) : oracle::best_path(s);
    const std::vector<int> path = p.path(row);
    e.loss += result.log_z - s.score(path);
    e.counted += static_cast<double>(path.size());
    add_chain(e.d_transitions, result.marginals.transitions, p.scale);
    add_chain(e.d_start, result.marginals.start, p.scale);
    add_chain(e.d_end, result.marginals.end, p.scale);
    e.d_start[static_cast<std::size_t>(path.front())] -= p.scale;
    e.d_end[static_cast<std::size_t>(path.back())] -= p.scale;
    for (std::size_t t = 0; t < path.size(); ++t) {
      const auto at = static_cast<std::int64_t>(t);
      for (std::int64_t j = 0; j < p.labels; ++j) {
        e.d_emissions[p.cell(at, row) + static_cast<std::size_t>(j)] =
            p.scale *
            (result.marginals
                 .emissions[t * static_cast<std::size_t>(p.labels) + static_cast<std::size_t>(j)] -
             (j == path[t] ? 1 : 0));
      }
      e.best[p.step(at, row)] = best[t];
      e.correct += best[t] == path[t] ? 1 : 0;
      if (t > 0)
        e.d_transitions[static_cast<std::size_t>(path[t - 1] * p.labels + path[t])] -= p.scale;
    }
  }
  return e;
}

/// Results come out of float64 sums over steps and labels and are rounded once to T.
template <typename T>
constexpr double kTolerance = std::is_same_v<T, double> ? 1e-11 : 2e-6;

class Crf : public testing::OnDevice {
 protected:
  template <typename T>
  Problem make(std::int64_t time, std::int64_t rows, std::int64_t labels, double spread = 3) {
    Problem p{time, rows, labels, 0.37, {}, {}, {}, {}, {}, {}};
    p.emissions = widened(random_values<T>(engine_, time * rows * labels, spread));
    p.transitions = widened(random_values<T>(engine_, labels * labels, spread));
    p.start = widened(random_values<T>(engine_, labels, spread));
    p.end = widened(random_values<T>(engine_, labels, spread));
    const auto below = [&](std::int64_t count) {
      return static_cast<std::int32_t>(engine_() % static_cast<std::uint64_t>(count));
    };
    for (std::int64_t n = 0; n < time * rows; ++n) p.targets.push_back(below(labels));
    for (std::int64_t row = 0; row < rows; ++row) p.lengths.push_back(below(time + 1));
    // Some rows are right as they are, so that not only wrong labels are counted.
    for (std::int64_t row = 0; row < rows; row += 2) {
      const std::vector<int> best = oracle::best_path(p.sequence(row));
      for (std::size_t t = 0; t < best.size(); ++t) {
        p.targets[p.step(static_cast<std::int64_t>(t), row)] = best[t];
      }
    }
    return p;
  }

  template <typename T>
  Tensor put_as(const std::vector<double>& values, const Shape& shape) {
    return put(std::vector<T>(values.begin(), values.end()), shape);
  }
  template <typename T>
  Chain put_chain(const Problem& p) {
    return {put_as<T>(p.transitions, {p.labels, p.labels}), put_as<T>(p.start, {p.labels}),
            put_as<T>(p.end, {p.labels})};
  }

  template <typename T>
  LossArgs arguments(const Problem& p, bool gradient = true) {
    const DType dtype = base::dtype_of<T>();
    LossArgs args;
    args.time = p.time;
    args.rows = p.rows;
    args.emissions = put_as<T>(p.emissions, p.cells());
    args.chain = put_chain<T>(p);
    args.targets = put(p.targets, Shape{p.time, p.rows});
    args.lengths = put(p.lengths);
    constexpr double kLossScale = 8;  // the gradient has both factors
    args.scale = put_number(p.scale / kLossScale);
    args.loss_scale = put_number(kLossScale);
    if (gradient) {
      args.d_emissions = poisoned(dtype, p.cells());
      // Added to, so there is something to add to.
      args.d_chain.transitions =
          put(std::vector<T>(p.transitions.size(), T{1}), {p.labels, p.labels});
      args.d_chain.start = put(std::vector<T>(p.start.size(), T{2}));
      args.d_chain.end = put(std::vector<T>(p.end.size(), T{3}));
    }
    args.best = poisoned(DType::kInt32, {p.time, p.rows});
    args.sums = poisoned(DType::kFloat64, {loss::kSums});
    const auto bytes =
        static_cast<std::int64_t>(loss_workspace_bytes(p.time, p.rows, p.labels, gradient));
    args.workspace = poisoned(DType::kUInt8, {bytes}).data();
    return args;
  }

  template <typename T>
  void check_array(const char* name, const Tensor& tensor, const std::vector<double>& expected,
                   double added, double tolerance) {
    const std::vector<T> values = get<T>(tensor);
    ASSERT_EQ(values.size(), expected.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i] - added, expected[i], tolerance) << name << " at " << i;
    }
  }

  template <typename T>
  void check_results(const Problem& p, const LossArgs& args, bool by_enumeration = false) {
    const Expected e = expect(p, by_enumeration);
    const auto sums = get<double>(args.sums);
    // float64 throughout: errors of log-sums grow with the number of steps and of the scores.
    EXPECT_NEAR(sums[loss::kLoss], e.loss, 1e-13 * (1 + std::abs(e.loss)) * (1 + e.counted));
    EXPECT_EQ(sums[loss::kNll], sums[loss::kLoss]);
    EXPECT_EQ(sums[loss::kTokens], e.counted);
    EXPECT_EQ(sums[loss::kCorrect], e.correct);
    EXPECT_EQ(get<std::int32_t>(args.best), e.best);
    if (!args.d_emissions) return;
    check_array<T>("d_emissions", args.d_emissions, e.d_emissions, 0, kTolerance<T>);
    // Sums over all labels that count, rounded beside what they are added to.
    const double sum = kTolerance<T> * (4 + 0.01 * e.counted);
    check_array<T>("d_transitions", args.d_chain.transitions, e.d_transitions, 1, sum);
    check_array<T>("d_start", args.d_chain.start, e.d_start, 2, sum);
    check_array<T>("d_end", args.d_chain.end, e.d_end, 3, sum);
  }

  /// With a gradient, over the emissions themselves, and without.
  template <typename T>
  void check_all_ways(const Problem& p, bool by_enumeration = false) {
    LossArgs args = arguments<T>(p);
    negative_log_likelihood(context_, args);
    check_results<T>(p, args, by_enumeration);
    args = arguments<T>(p);
    args.d_emissions = args.emissions;
    negative_log_likelihood(context_, args);
    check_results<T>(p, args, by_enumeration);
    args = arguments<T>(p, false);
    negative_log_likelihood(context_, args);
    check_results<T>(p, args, by_enumeration);
  }

  template <typename T>
  void check_all() {
    for (const std::int64_t labels : {1, 2, 3, 4}) {
      for (int trial = 0; trial < 3; ++trial) {
        check_all_ways<T>(make<T>(1 + trial * 2, 7, labels), true);
        release_memory();
      }
    }
    // The last are more than a GPU keeps in shared memory.
    for (const std::int64_t labels : {5, 13, 31, 32, 33, 65, 129, 180, 211}) {
      const std::int64_t time = labels > 99 ? 4 : 19;
      check_all_ways<T>(make<T>(time, 5, labels));
      release_memory();
    }
  }

  BestLabelsArgs decoding(const Problem& p) {
    BestLabelsArgs args;
    args.time = p.time;
    args.rows = p.rows;
    args.emissions = put_as<float>(p.emissions, p.cells());
    args.chain = put_chain<float>(p);
    args.lengths = put(p.lengths);
    args.best = poisoned(DType::kInt32, {p.time, p.rows});
    args.scores = poisoned(DType::kFloat64, {p.rows});
    const auto bytes =
        static_cast<std::int64_t>(best_labels_workspace_bytes(p.time, p.rows, p.labels));
    args.workspace = poisoned(DType::kUInt8, {bytes}).data();
    return args;
  }

  std::mt19937_64 engine_{20};
};

TEST_P(Crf, Float32EqualsTheDefinition) { check_all<float>(); }
TEST_P(Crf, Float64EqualsTheDefinition) { check_all<double>(); }

TEST_P(Crf, ManyRowsAndSteps) {
  check_all_ways<float>(make<float>(70, 90, 9));
  release_memory();
  check_all_ways<float>(make<float>(1, 300, 6));
}

TEST_P(Crf, GradientEqualsFiniteDifferences) {
  Problem p = make<double>(4, 5, 6);
  const LossArgs args = arguments<double>(p);
  negative_log_likelihood(context_, args);
  const LossArgs moved = arguments<double>(p, false);
  const auto check = [&](std::vector<double>& values, const Tensor& place, const Tensor& tensor,
                         double added) {
    const std::vector<double> gradient = get<double>(tensor);
    for (std::size_t i = 0; i < values.size(); i += 3) {
      const double x = values[i], h = 1e-5;
      const auto loss_at = [&](double value) {
        values[i] = value;
        context_.upload<double>(place, values);
        negative_log_likelihood(context_, moved);
        return get<double>(moved.sums)[loss::kLoss];
      };
      const double above = loss_at(x + h), below = loss_at(x - h);
      loss_at(x);
      // Central differences: error h^2 from the third derivative, eps * loss / h from rounding.
      EXPECT_NEAR(gradient[i] - added, p.scale * (above - below) / (2 * h), 1e-8) << "at " << i;
    }
  };
  check(p.emissions, moved.emissions, args.d_emissions, 0);
  check(p.transitions, moved.chain.transitions, args.d_chain.transitions, 1);
  check(p.start, moved.chain.start, args.d_chain.start, 2);
  check(p.end, moved.chain.end, args.d_chain.end, 3);
}

// Scores so far apart that no product of exponentials holds them: sums have to be taken as
// logarithms.
TEST_P(Crf, HugeScoresDoNotOverflow) {
  for (const double spread : {300.0, 2000.0, 1e5}) {
    for (int trial = 0; trial < 4; ++trial) {
      const Problem p = make<double>(6, 5, 5, spread);
      const LossArgs args = arguments<double>(p);
      negative_log_likelihood(context_, args);
      const Expected e = expect(p, false);
      EXPECT_NEAR(get<double>(args.sums)[loss::kLoss], e.loss, 1e-13 * spread * 100);
      // A log-sum is off by its own rounding, which is that of the scores.
      const double tolerance = 1e-13 * spread;
      check_array<double>("d_emissions", args.d_emissions, e.d_emissions, 0, tolerance);
      check_array<double>("d_transitions", args.d_chain.transitions, e.d_transitions, 1,
                          30 * tolerance);
    }
  }
}

TEST_P(Crf, MinusInfinityForbids) {
  Problem p = make<float>(5, 4, 4);
  p.lengths = {5, 3, 1, 4};
  for (const int from : {0, 1, 2})
    p.transitions[static_cast<std::size_t>(from * 4 + 3)] = kForbidden;
  p.start[2] = p.end[1] = kForbidden;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::vector<int> best = oracle::best_path(p.sequence(row));
    for (std::int64_t t = 0; t < p.length(row); ++t) {
      p.targets[p.step(t, row)] = best[static_cast<std::size_t>(t)];
    }
  }
  check_all_ways<float>(p, true);
}

TEST_P(Crf, NanStaysInItsRow) {
  Problem p = make<float>(3, 3, 4);
  p.lengths = {3, 2, 3};
  LossArgs args = arguments<float>(p);
  negative_log_likelihood(context_, args);
  const auto gradient = get<float>(args.d_emissions);
  p.emissions[p.cell(2, 1) + 1] = std::numeric_limits<double>::quiet_NaN();  // past the row's end
  args = arguments<float>(p);
  negative_log_likelihood(context_, args);
  EXPECT_TRUE(same_bits(get<float>(args.d_emissions), gradient));
  p.emissions[p.cell(1, 1) + 3] = std::numeric_limits<double>::quiet_NaN();
  args = arguments<float>(p);
  negative_log_likelihood(context_, args);
  EXPECT_TRUE(std::isnan(get<double>(args.sums)[loss::kLoss]));
  const auto with_nan = get<float>(args.d_emissions);
  for (std::int64_t t = 0; t < p.time; ++t) {
    for (const std::int64_t row : {0, 2}) {
      for (std::size_t j = 0; j < 4; ++j) {
        EXPECT_EQ(with_nan[p.cell(t, row) + j], gradient[p.cell(t, row) + j]);
      }
    }
  }
}

TEST_P(Crf, RowsDoNotDependOnEachOtherOrOnThreads) {
  Problem p = make<float>(12, 6, 40);
  LossArgs args = arguments<float>(p);
  negative_log_likelihood(context_, args);
  const auto sums = get<double>(args.sums);
  const auto gradient = get<float>(args.d_emissions);
  const auto transitions = get<float>(args.d_chain.transitions);
  set_threads(3);
  args = arguments<float>(p);
  negative_log_likelihood(context_, args);
  EXPECT_TRUE(same_bits(sums, get<double>(args.sums)));
  EXPECT_TRUE(same_bits(gradient, get<float>(args.d_emissions)));
  EXPECT_TRUE(same_bits(transitions, get<float>(args.d_chain.transitions)));
  for (const std::int64_t row : {1, 4}) {
    Problem single{p.time, 1, p.labels, p.scale, {}, p.transitions, p.start, p.end, {}, {}};
    single.lengths = {static_cast<std::int32_t>(p.length(row))};
    std::vector<float> expected;
    for (std::int64_t t = 0; t < p.time; ++t) {
      const std::size_t first = p.cell(t, row), last = first + 40;
      single.targets.push_back(p.targets[p.step(t, row)]);
      for (std::size_t i = first; i < last; ++i) {
        single.emissions.push_back(p.emissions[i]);
        expected.push_back(gradient[i]);
      }
    }
    const LossArgs alone = arguments<float>(single);
    negative_log_likelihood(context_, alone);
    EXPECT_TRUE(same_bits(get<float>(alone.d_emissions), expected));
  }
}

TEST_P(Crf, WithoutLengthsEveryRowHasAllSteps) {
  Problem p = make<float>(5, 3, 4);
  p.lengths.assign(3, 5);
  LossArgs args = arguments<float>(p);
  args.lengths = Tensor();
  args.scale = put_number(p.scale);
  args.loss_scale = Tensor();
  negative_log_likelihood(context_, args);
  check_results<float>(p, args);
}

TEST_P(Crf, EmptyRowsAndEmptyBatches) {
  Problem p = make<float>(3, 2, 4);
  p.lengths = {0, 0};
  check_all_ways<float>(p);
  p = make<float>(0, 2, 4);
  const LossArgs args = arguments<float>(p);
  negative_log_likelihood(context_, args);
  check_results<float>(p, args);
}

TEST_P(Crf, BestLabels) {
  for (const std::int64_t labels : {1, 3, 13, 40, 150}) {
    const Problem p = make<float>(9, 7, labels);
    BestLabelsArgs args = decoding(p);
    best_labels(context_, args);
    const Expected e = expect(p, false);
    EXPECT_EQ(get<std::int32_t>(args.best), e.best);
    const auto scores = get<double>(args.scores);
    for (std::int64_t row = 0; row < p.rows; ++row) {
      std::vector<int> path;
      for (std::int64_t t = 0; t < p.length(row); ++t) path.push_back(e.best[p.step(t, row)]);
      EXPECT_NEAR(scores[static_cast<std::size_t>(row)], p.sequence(row).score(path), 1e-11);
    }
    args.scores = Tensor();
    args.best = poisoned(DType::kInt32, {p.time, p.rows});
    best_labels(context_, args);
    EXPECT_EQ(get<std::int32_t>(args.best), e.best);
  }
}

TEST_P(Crf, OfEqualSequencesTheLastLabelIsTheLowest) {
  Problem p{3, 2, 40, 1, {}, {}, {}, {}, std::vector<std::int32_t>(6), {3, 2}};
  p.emissions.assign(240, 0.5);
  p.transitions.assign(1600, 0.0);
  p.start.assign(40, 0.0);
  p.end.assign(40, 0.0);
  p.transitions[37 * 40 + 38] = p.transitions[38 * 40 + 37] = 1;
  const BestLabelsArgs args = decoding(p);
  best_labels(context_, args);
  EXPECT_EQ(get<std::int32_t>(args.best), (std::vector<std::int32_t>{37, 38, 38, 37, 37, 0}));
}

TEST_P(Crf, WithoutAChainEachLabelStandsForItself) {
  const Problem p = make<float>(6, 5, 37);
  BestLabelsArgs args = decoding(p);
  args.chain = {};
  best_labels(context_, args);
  const auto best = get<std::int32_t>(args.best);
  const auto scores = get<double>(args.scores);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    double score = 0;
    for (std::int64_t t = 0; t < p.time; ++t) {
      const auto first = p.emissions.begin() + static_cast<std::ptrdiff_t>(p.cell(t, row));
      const auto largest = std::max_element(first, first + 37);
      const bool counts = t < p.length(row);
      EXPECT_EQ(best[p.step(t, row)], counts ? largest - first : 0);
      if (counts) score += *largest;
    }
    EXPECT_EQ(scores[static_cast<std::size_t>(row)], score);
  }
}

TEST_P(Crf, RefusesBadArguments) {
  const Problem p = make<float>(3, 2, 4);
  const LossArgs good = arguments<float>(p);
  const auto refused = [&](auto change) {
    LossArgs bad = good;
    change(bad);
    EXPECT_THROW(negative_log_likelihood(context_, bad), Error);
  };
  refused([](LossArgs& a) { a.rows = 3; });
  refused([](LossArgs& a) { a.chain.end = Tensor(); });
  refused([](LossArgs& a) { a.d_chain.start = Tensor(); });
  refused([](LossArgs& a) { a.workspace = nullptr; });
  refused([](LossArgs& a) { a.best = Tensor(); });
  refused([&](LossArgs& a) { a.sums = poisoned(DType::kFloat64, {1}); });
  refused([&](LossArgs& a) { a.emissions = poisoned(DType::kFloat32, {3, 2, kMostLabels + 1}); });
  BestLabelsArgs half = decoding(p);
  half.chain.start = Tensor();
  EXPECT_THROW(best_labels(context_, half), Error);

  LossArgs bad = good;
  bad.lengths = Tensor();
  std::vector<std::int32_t> targets(6, 0);
  targets[3] = 4;
  bad.targets = put(targets, Shape{3, 2});
  const auto run = [&] {
    negative_log_likelihood(context_, bad);
    context_.synchronize();
  };
  if (device_->runs_host_kernels()) {
    EXPECT_THROW(run(), Error);
  } else {
    run();  // a GPU can't throw
    EXPECT_TRUE(std::isnan(get<double>(bad.sums)[loss::kLoss]));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Crf, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::crf
