#include <cstdlib>
#include <functional>
#include <random>

#include "unit/kernels_attention_decoder/persistent_cases.h"

/// All forward steps in one launch, on GPUs that have it: what it is queued behind and beside.
namespace sluice::kernels::attention_decoder {
namespace {

template <typename T>
class QueueChecks final : public PersistentCases<T> {
 public:
  void graph() {
    const DecoderCase c = of(with(768, 100, 200, 50, 30), 6, 33, 20, 0.3);
    if (!has(c)) GTEST_SKIP() << "this device runs no such launch";
    Sample<T> sample = sample_of(c, 33);
    const auto planned = this->plan(c.d, std::string(kName), sample.weights);
    const ForwardArgs args = args_of(c, sample.input);
    const Tensor first = copy_of(args.emb);
    sample.input.embedded = sample.draw(sample.input.embedded.size());
    const Tensor second = args_of(c, sample.input).emb;
    const auto run_on = [&](const Tensor& emb, const std::function<void()>& work) {
      this->context_.copy(args.emb, emb);
      poison_outputs(args);
      work();
      return outputs(args);
    };
    const auto forward = [&] { planned.plan->forward(this->context_, args, planned.memory); };
    const Numbers want = run_on(first, forward), other = run_on(second, forward);
    EXPECT_NE(want[0], other[0]);
    runtime::Stream& stream = this->context_.stream();
    const auto graph = stream.capture(forward);
    const auto replay = [&] { graph->launch(stream); };
    expect_same_bits(run_on(first, replay), want);
    expect_same_bits(run_on(first, replay), want);
    expect_same_bits(run_on(second, replay), other);
  }

  void two_streams() {
    const DecoderCase cases[] = {of(with(700, 90, 120, 64, 32), 9, 30, 40, 0.2),
                                 of(with(1024, 512, 512, 128, 64), 5, 64, 64, 0)};
    if (!has(cases[0])) GTEST_SKIP() << "this device runs no such launch";
    QueueChecks engines[2];  // each with a stream of its own
    std::vector<typename DecoderTest<T>::Planned> planned;
    std::vector<ForwardArgs> args;
    std::vector<Numbers> alone;
    for (std::size_t i = 0; i < 2; ++i) {
      const Sample<T> sample = sample_of(cases[i], 34 + i);
      planned.push_back(engines[i].plan(cases[i].d, std::string(kName), sample.weights));
      args.push_back(engines[i].args_of(cases[i], sample.input));
      alone.push_back(engines[i].run(*planned[i].plan, planned[i].memory, args[i]));
      engines[i].poison_outputs(args[i]);
    }
    for (int round = 0; round < 100; ++round) {
      for (std::size_t i = 0; i < 2; ++i) {
        planned[i].plan->forward(engines[i].context_, args[i], planned[i].memory);
      }
    }
    for (std::size_t i = 0; i < 2; ++i) expect_same_bits(engines[i].outputs(args[i]), alone[i]);
  }

 private:
  using PersistentCases<T>::kName;
  using PersistentCases<T>::with;
  using PersistentCases<T>::of;
  using PersistentCases<T>::sample_of;
  using PersistentCases<T>::has;
  using PersistentCases<T>::args_of;
  using PersistentCases<T>::outputs;
  using PersistentCases<T>::poison_outputs;
  using PersistentCases<T>::expect_same_bits;
  using typename PersistentCases<T>::Numbers;

  void TestBody() override {}

  Tensor copy_of(const Tensor& tensor) {
    const Tensor copy = this->poisoned(tensor.dtype(), tensor.shape());
    this->context_.copy(copy, tensor);
    return copy;
  }
};

/// Plans of random sizes, each for runs of random extents.
template <typename T>
class SoakChecks final : public PersistentCases<T> {
 public:
  void check() {
    for (int i = 0; i < kPlans && !this->HasFailure(); ++i) {
      const DecoderCase c = draw_case();
      SCOPED_TRACE(describe(c));
      if (!this->has(c)) GTEST_SKIP() << "this device runs no such launch";
      check_plan(c);
    }
  }

 private:
  using Numbers = typename PersistentCases<T>::Numbers;
  using PersistentCases<T>::kName;
  static constexpr int kPlans = 10, kExtents = 8, kRounds = 125;

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  DecoderCase draw_case() {
    DecoderCase c = PersistentCases<T>::of(
        PersistentCases<T>::with(draw(513, 1024), draw(1, 1024), draw(1, 1024), draw(1, 200),
                                 draw(1, 64)),
        draw(3, 8), draw(1, 64), draw(1, 64), 0.25 * static_cast<double>(draw(0, 2)));
    c.d.training = draw(0, 1) == 1;
    return c;
  }
  DecoderCase draw_extent(DecoderCase c) {
    c.time = draw(1, c.d.target_time);
    c.source = draw(1, c.d.source_time);
    c.rows = draw(1, c.d.rows);
    return c;
  }
  oracle::DecoderInput draw_input(const DecoderCase& c, Sample<T>& sample) {
    oracle::DecoderInput input;
    input.embedded = sample.draw(c.time * c.rows * c.d.embedding);
    input.memory = sample.draw(c.source * c.rows * c.d.memory);
    for (std::int64_t row = 0; row < c.rows; ++row) {
      input.memory_lengths.push_back(static_cast<int>(draw(0, c.source)));
      input.lengths.push_back(static_cast<int>(draw(0, c.time)));
    }
    input.h0 = sample.draw(c.d.layers * c.rows * c.d.hidden);
    input.c0 = sample.draw(c.d.layers * c.rows * c.d.hidden);
    return input;
  }

  void check_plan(const DecoderCase& c) {
    Sample<T> sample = PersistentCases<T>::sample_of(c, random_());
    const auto planned = this->plan(c.d, std::string(kName), sample.weights);
    const auto stepwise = this->plan(c.d, "stepwise", sample.weights);
    std::vector<ForwardArgs> runs;
    std::vector<Numbers> want;
    for (int i = 0; i < kExtents; ++i) {
      const DecoderCase one = draw_extent(c);
      SCOPED_TRACE(describe(one));
      runs.push_back(this->args_of(one, draw_input(one, sample)));
      want.push_back(this->run(*planned.plan, planned.memory, runs.back()));
      this->expect_all_near(want.back(), this->run(*stepwise.plan, stepwise.memory, runs.back()),
                            2 * PersistentCases<T>::tolerance(c));
      this->poison_outputs(runs.back());
    }
    for (int round = 0; round < kRounds; ++round) {
      for (const ForwardArgs& args : runs) {
        planned.plan->forward(this->context_, args, planned.memory);
      }
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
      this->expect_same_bits(this->outputs(runs[i]), want[i]);
    }
    this->release_memory();
  }

  void TestBody() override {}

  /// Fresh on every run; SLUICE_TEST_SEED repeats one.
  static std::uint64_t seed() {
    const char* wanted = std::getenv("SLUICE_TEST_SEED");
    return wanted == nullptr ? std::random_device()() : std::strtoull(wanted, nullptr, 10);
  }

  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};
};

TEST_P(PersistentLaunchTest, ReplaysInAGraph) { QueueChecks<base::BFloat16>().graph(); }
// Each launch wants nearly all multiprocessors, and waits for them before it begins.
TEST_P(PersistentLaunchTest, RunsBesideAnotherStream) {
  QueueChecks<base::BFloat16>().two_streams();
}
// Ten thousand launches each: none hangs, and none leaves anything behind that the next would take
// for its own.
TEST_P(PersistentLaunchTest, SurvivesASoakInBFloat16) { SoakChecks<base::BFloat16>().check(); }
TEST_P(PersistentLaunchTest, SurvivesASoakInFloat16) { SoakChecks<base::Float16>().check(); }

}  // namespace
}  // namespace sluice::kernels::attention_decoder
