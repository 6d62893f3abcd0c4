#include <cstdlib>
#include <random>

#include "unit/kernels_attention_decoder/persistent_cases.h"

/// All forward steps in one launch, and all backward steps, ten thousand times, on GPUs that have
/// it.
namespace sluice::kernels::attention_decoder {
namespace {

/// A run; of inference `backward` has no tensors.
struct SoakRun {
  ForwardArgs forward;
  BackwardArgs backward;

  bool trains() const { return static_cast<bool>(backward.da); }
};
std::vector<Tensor> outputs_of(const SoakRun& run) {
  std::vector<Tensor> all = outputs_of(run.forward);
  if (!run.trains()) return all;
  for (const Tensor& tensor : outputs_of(run.backward)) all.push_back(tensor);
  return all;
}

/// Plans of random sizes, each for runs of random extents.
template <typename T>
class SoakChecks final : public PersistentCases<T> {
 public:
  void check(bool training) {
    for (int i = 0; i < kPlans && !this->HasFailure(); ++i) {
      DecoderCase c = draw_case();
      c.d.training = training;
      SCOPED_TRACE(describe(c));
      if (!this->has(c)) GTEST_SKIP() << "this device has no such launch";
      check_plan(c);
    }
  }

 private:
  using Numbers = typename PersistentCases<T>::Numbers;
  using Planned = typename DecoderTest<T>::Planned;
  using PersistentCases<T>::kName;
  static constexpr int kPlans = 10, kExtents = 8, kRounds = 125;

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  DecoderCase draw_case() {
    return PersistentCases<T>::of(
        PersistentCases<T>::with(draw(513, 1024), draw(1, 1024), draw(1, 1024), draw(1, 200),
                                 draw(1, 64)),
        draw(3, 8), draw(1, 64), draw(1, 64), 0.25 * static_cast<double>(draw(0, 2)));
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
  /// Gradients of weights are left out: they are products of what the launch leaves, as those of
  /// the inputs are.
  SoakRun draw_run(const DecoderCase& c, Sample<T>& sample) {
    const oracle::DecoderInput input = draw_input(c, sample);
    SoakRun run{this->args_of(c, input), {}};
    if (!c.d.training) return run;
    oracle::DecoderOutputGradients gradients;
    gradients.da = sample.draw(c.time * c.rows * c.d.output);
    gradients.dhn = sample.draw(c.d.layers * c.rows * c.d.hidden);
    gradients.dcn = sample.draw(c.d.layers * c.rows * c.d.hidden);
    run.backward = this->backward_args(c, run.forward, input, gradients, {});
    return run;
  }

  void queue(const Planned& planned, const SoakRun& run) {
    planned.plan->forward(this->context_, run.forward, planned.memory);
    if (run.trains()) planned.plan->backward(this->context_, run.backward, planned.memory);
  }
  /// On outputs that hold nothing of earlier runs.
  Numbers results(const Planned& planned, const SoakRun& run) {
    this->poison_outputs(run);
    queue(planned, run);
    return this->outputs(run);
  }

  void check_plan(const DecoderCase& c) {
    Sample<T> sample = PersistentCases<T>::sample_of(c, random_());
    const Planned planned = this->plan(c.d, std::string(kName), sample.weights);
    const Planned stepwise = this->plan(c.d, "stepwise", sample.weights);
    std::vector<SoakRun> runs;
    std::vector<Numbers> want;
    for (int i = 0; i < kExtents; ++i) {
      const DecoderCase one = draw_extent(c);
      SCOPED_TRACE(describe(one));
      runs.push_back(draw_run(one, sample));
      want.push_back(results(planned, runs.back()));
      this->expect_all_near(want.back(), results(stepwise, runs.back()),
                            2 * PersistentCases<T>::tolerance(c));
      this->poison_outputs(runs.back());
    }
    for (int round = 0; round < kRounds; ++round) {
      for (const SoakRun& run : runs) queue(planned, run);
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
      this->expect_same_bits(this->outputs(runs[i]), want[i]);
    }
    this->release_memory();
  }

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

// Ten thousand launches each, in training of forward and of backward: none hangs, and none leaves
// anything behind that the next would take for its own.
TEST_P(PersistentLaunchTest, SurvivesASoakInBFloat16) { SoakChecks<base::BFloat16>().check(false); }
TEST_P(PersistentLaunchTest, SurvivesASoakInFloat16) { SoakChecks<base::Float16>().check(false); }
TEST_P(PersistentLaunchTest, TrainsThroughASoakInBFloat16) {
  SoakChecks<base::BFloat16>().check(true);
}
TEST_P(PersistentLaunchTest, TrainsThroughASoakInFloat16) {
  SoakChecks<base::Float16>().check(true);
}

}  // namespace
}  // namespace sluice::kernels::attention_decoder
