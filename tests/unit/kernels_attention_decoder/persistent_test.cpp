#include "unit/kernels_attention_decoder/persistent_cases.h"

/// All forward steps in one launch, and all backward steps, on GPUs that have it. Shapes are larger
/// than the random ones of oracle_test.cpp.
namespace sluice::kernels::attention_decoder {
namespace {

template <typename T>
class PersistentTest : public PersistentCases<T> {
 protected:
  using PersistentCases<T>::kName;
  using PersistentCases<T>::with;
  using PersistentCases<T>::of;
  using PersistentCases<T>::sample_of;
  using PersistentCases<T>::has;
  using PersistentCases<T>::tolerance;
  using PersistentCases<T>::expect_all_near;

  /// Outputs of forward, then of backward, then gradients of weights, which begin at zero, then of
  /// what was fed into the first step.
  std::vector<std::vector<double>> run(const DecoderCase& c, const Sample<T>& sample,
                                       const std::string& name) {
    auto planned = this->plan(c.d, name, sample.weights);
    ForwardArgs forward = this->forward_args(c, sample.input);
    if (c.d.dropout > 0) {
      std::vector<std::int32_t> ids;
      for (std::int64_t row = 0; row < c.rows; ++row) {
        ids.push_back(static_cast<std::int32_t>(row * 7 % 31));
      }
      forward.dropout = this->put_key(runtime::DropoutKey{9, 3, 5});
      forward.row_ids = this->put(ids);
    }
    const BackwardArgs backward = this->backward_args(c, forward, sample.input, sample.gradients,
                                                      oracle::zero_weights(sample.shape));
    planned.plan->forward(this->context_, forward, planned.memory);
    planned.plan->backward(this->context_, backward, planned.memory);
    std::vector<std::vector<double>> all;
    for (const Tensor& tensor : {forward.a, forward.alpha, forward.hn, forward.cn, backward.d_emb,
                                 backward.d_memory, backward.dh0, backward.dc0}) {
      all.push_back(this->numbers(tensor));
    }
    for (const Tensor& tensor : this->tensors(backward.gradients)) {
      all.push_back(this->numbers(tensor));
    }
    all.push_back(this->numbers(backward.da0));
    this->release_memory();
    return all;
  }

  static std::vector<std::vector<double>> expected(const Sample<T>& sample) {
    const auto forward = oracle::forward(sample.shape, sample.weights, sample.input);
    auto backward =
        oracle::backward(sample.shape, sample.weights, sample.input, forward, sample.gradients);
    std::vector<std::vector<double>> all{forward.a,    forward.alpha,      forward.hn,
                                         forward.cn,   backward.dembedded, backward.dmemory,
                                         backward.dh0, backward.dc0};
    for (const auto* array : Sample<T>::arrays(backward.weights)) all.push_back(*array);
    // What was fed in has no gradient of its own there.
    return all;
  }

  void check_against_oracle() {
    for (const DecoderCase& c :
         {of(with(519, 33, 90, 45, 17), 4, 9, 1, 0), of(with(600, 70, 41, 64, 31), 5, 61, 19, 0),
          of(with(513, 640, 530, 33, 8), 3, 1, 6, 0)}) {
      SCOPED_TRACE(describe(c));
      if (!has(c)) GTEST_SKIP() << "this device has no such launch";
      const Sample<T> sample = sample_of(c, 21);
      auto got = run(c, sample, std::string(kName));
      got.pop_back();
      expect_all_near(got, expected(sample), tolerance(c));
    }
  }

  /// Where the oracle takes too long, and with dropout, whose masks are the same: single steps
  /// differ by their roundings and the launch's.
  void check_against_single_steps() {
    for (const DecoderCase& c : {of(with(1000, 900, 777, 1100, 40), 6, 33, 37, 0.3),
                                 of(with(1024, 1024, 1024, 1024, 64), 5, 20, 64, 0.5),
                                 of(with(640, 1000, 24, 8, 100), 9, 64, 3, 0)}) {
      SCOPED_TRACE(describe(c));
      if (!has(c)) GTEST_SKIP() << "this device has no such launch";
      const Sample<T> sample = sample_of(c, 22);
      const auto got = run(c, sample, std::string(kName));
      expect_all_near(got, run(c, sample, "stepwise"), 2 * tolerance(c));
      const auto again = run(c, sample, std::string(kName));
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], again[i]) << "output " << i;
    }
  }

  /// Odd widths, extents below the capacity, and what may be absent.
  void check_random() {
    std::mt19937_64 engine(31);
    const auto between = [&](std::int64_t low, std::int64_t high) {
      return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
    };
    for (int i = 0; i < 6; ++i) {
      DecoderCase c = of(with(between(513, 1024), between(1, 1024), between(1, 1024),
                              between(1, 1500), between(1, 60)),
                         between(3, 9), between(1, 64), between(1, 64), i % 2 == 0 ? 0.4 : 0);
      c.time = between(1, c.d.target_time);
      c.source = between(1, c.d.source_time);
      c.rows = between(1, c.d.rows);
      c.source_lengths = i % 3 > 0;
      c.target_lengths = i % 4 > 0;
      c.initial_state = i % 2 > 0;
      c.end_gradients = i % 3 != 1;
      SCOPED_TRACE(describe(c));
      if (!has(c)) GTEST_SKIP() << "this device has no such launch";
      const Sample<T> sample = sample_of(c, engine());
      const auto got = run(c, sample, std::string(kName));
      expect_all_near(got, run(c, sample, "stepwise"), 2 * tolerance(c));
      EXPECT_EQ(got, run(c, sample, std::string(kName)));
    }
  }

  /// Runs shorter and of fewer rows than the capacity.
  void check_extents() {
    DecoderCase c = of(with(768, 100, 200, 50, 30), 7, 12, 50, 0);
    if (!has(c)) GTEST_SKIP() << "this device has no such launch";
    c.d.training = false;
    for (const std::int64_t rows : {1, 33, 50}) {
      for (const std::int64_t time : {1, 5}) {
        for (const std::int64_t source : {1, 12}) {
          c.rows = rows;
          c.time = time;
          c.source = source;
          SCOPED_TRACE(describe(c));
          const Sample<T> sample = sample_of(c, 23);
          std::vector<std::vector<double>> outputs[2];
          for (const bool persistent : {false, true}) {
            auto planned =
                this->plan(c.d, persistent ? std::string(kName) : "stepwise", sample.weights);
            const ForwardArgs args = this->forward_args(c, sample.input);
            planned.plan->forward(this->context_, args, planned.memory);
            for (const Tensor& tensor : {args.a, args.alpha, args.hn, args.cn}) {
              outputs[persistent ? 1 : 0].push_back(this->numbers(tensor));
            }
            this->release_memory();
          }
          expect_all_near(outputs[1], outputs[0], 2 * tolerance(c));
        }
      }
    }
  }
};

using PersistentTestBFloat16 = PersistentTest<base::BFloat16>;
using PersistentTestFloat16 = PersistentTest<base::Float16>;

TEST_P(PersistentTestBFloat16, MatchesTheOracle) { check_against_oracle(); }
TEST_P(PersistentTestFloat16, MatchesTheOracle) { check_against_oracle(); }
TEST_P(PersistentTestBFloat16, MatchesSingleSteps) { check_against_single_steps(); }
TEST_P(PersistentTestFloat16, MatchesSingleSteps) { check_against_single_steps(); }
TEST_P(PersistentTestBFloat16, MatchesSingleStepsOnRandomShapes) { check_random(); }
TEST_P(PersistentTestFloat16, MatchesSingleStepsOnRandomShapes) { check_random(); }
TEST_P(PersistentTestBFloat16, TakesRunsOfAnyExtent) { check_extents(); }

INSTANTIATE_TEST_SUITE_P(Devices, PersistentTestBFloat16, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, PersistentTestFloat16, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::attention_decoder
