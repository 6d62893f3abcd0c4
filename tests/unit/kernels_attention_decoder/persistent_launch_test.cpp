#include <functional>

#include "unit/kernels_attention_decoder/persistent_cases.h"
#include "unit/support/part_of_gpu.h"
#include "unit/support/temporary_folder.h"

/// All forward steps in one launch, on GPUs that have it: what it reads and writes, what it is
/// queued behind and beside, and what it refuses.
namespace sluice::kernels::attention_decoder {
namespace {

template <typename T>
class LaunchChecks final : public PersistentCases<T> {
 public:
  void two_steps() {
    DecoderCase c = of(with(520, 40, 45, 24, 16), 3, 5, 3, 0);
    c.time = 2;
    if (!has(c)) GTEST_SKIP() << "this device has no such launch";
    const Sample<T> sample = sample_of(c, 30);
    expect_all_near(run(c, sample), expected(sample, sample.input), tolerance(c));
  }

  void nan() {
    DecoderCase c = of(with(530, 40, 61, 48, 24), 5, 40, 7, 0);
    c.d.training = false;
    if (!has(c)) GTEST_SKIP() << "this device has no such launch";
    Sample<T> sample = sample_of(c, 31);
    sample.input.memory_lengths = {40, 33, 1, 20, 40, 5, 0};
    sample.input.lengths = {5, 5, 4, 5, 3, 5, 5};
    const Numbers clean = run(c, sample);
    using Input = oracle::DecoderInput;
    struct Place {
      std::vector<double> Input::*values;
      std::int64_t outer, row, width, at;
    };
    for (const Place& place :
         {Place{&Input::embedded, 2, 1, 24, 3}, Place{&Input::memory, 7, 3, 48, 47},
          Place{&Input::memory, 39, 0, 48, 0}, Place{&Input::memory, 0, 2, 48, 9},
          Place{&Input::h0, 1, 4, 530, 529}, Place{&Input::c0, 0, 5, 530, 100}}) {
      SCOPED_TRACE(fmt::format("of row {}", place.row));
      Sample<T> spoilt = sample;
      const std::int64_t index = (place.outer * c.rows + place.row) * place.width + place.at;
      (spoilt.input.*place.values)[static_cast<std::size_t>(index)] =
          std::numeric_limits<double>::quiet_NaN();
      const Numbers got = run(c, spoilt);
      expect_near_or_nan(got, expected(spoilt, spoilt.input), tolerance(c));
      expect_same_bits_beside(c, place.row, got, clean);
      this->release_memory();
    }
  }

  void addresses() {
    // Rows that could be written by fours, and others.
    for (const std::int64_t output : {64, 61}) {
      const DecoderCase c = of(with(600, 70, output, 40, 32), 4, 36, 5, 0);
      if (!has(c)) GTEST_SKIP() << "this device has no such launch";
      const Sample<T> sample = sample_of(c, 32);
      const auto planned = this->plan(c.d, std::string(kName), sample.weights);
      const ForwardArgs aligned = args_of(c, sample.input);
      const Numbers want = run(*planned.plan, planned.memory, aligned);
      for (const std::int64_t skips : {1, 2, 3, 4}) {
        SCOPED_TRACE(fmt::format("{} outputs, {} elements behind", output, skips));
        ForwardArgs args = aligned;
        std::vector<Surrounded> memory;
        for (Tensor* tensor : {&args.a, &args.alpha, &args.hn, &args.cn}) {
          *tensor = memory.emplace_back(surrounded(*tensor, skips)).inner;
        }
        planned.plan->forward(this->context_, args, planned.memory);
        expect_same_bits(outputs(args), want);
        for (const Surrounded& one : memory) expect_untouched_around(one, skips);
        // Their products may be others, that read fewer numbers at a time.
        for (Tensor* tensor : {&args.emb, &args.memory, &args.h0, &args.c0}) {
          *tensor = moved(*tensor, skips);
        }
        expect_all_near(run(*planned.plan, planned.memory, args), want, tolerance(c));
      }
      this->release_memory();
    }
  }

  void graph() {
    const DecoderCase c = of(with(768, 100, 200, 50, 30), 6, 33, 20, 0.3);
    if (!has(c)) GTEST_SKIP() << "this device has no such launch";
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
    if (!has(cases[0])) GTEST_SKIP() << "this device has no such launch";
    LaunchChecks engines[2];  // each with a stream of its own
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

  void refusals() {
    const DecoderCase c = of(with(600, 70, 61, 40, 30), 3, 64, 64, 0);
    if (!has(c)) GTEST_SKIP() << "this device has no such launch";
    constexpr const char* kWidths = "it takes 513 to 1024 units, keys and outputs of up to as many";
    struct Change {
      std::int64_t Descriptor::*size;
      std::int64_t value;
      const char* reason;
    };
    for (const Change& change :
         {Change{&Descriptor::rows, 65, "it takes up to 64 rows, not 65"},
          Change{&Descriptor::source_time, 65, "it takes up to 64 source positions, not 65"},
          Change{&Descriptor::hidden, 512, kWidths}, Change{&Descriptor::hidden, 1025, kWidths},
          Change{&Descriptor::key, 1025, kWidths}, Change{&Descriptor::output, 1025, kWidths},
          Change{&Descriptor::target_time, 2,
                 "beginning takes as long as two steps, which 2 don't pay for"},
          Change{&Descriptor::layers, 3, "it has 2 layers of LSTM"}}) {
      Descriptor d = c.d;
      d.*change.size = change.value;
      EXPECT_EQ(refusal(d), change.reason);
      EXPECT_EQ(make_plan(this->context_, d).plan->implementation(), "stepwise");
    }
    Descriptor d = c.d;
    d.rows = 65;
    const Error error =
        testing::error_of([&] { make_plan(this->context_, d, std::string(kName)); });
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    expect_runs_refused(c);
  }

  void part_of_gpu() {
    DecoderCase c = of(with(600, 70, 61, 40, 30), 3, 64, 64, 0);
    if (!has(c)) GTEST_SKIP() << "this device has no such launch";
    const testing::PartOfGpu part(64);
    for (const bool training : {false, true}) {
      c.d.training = training;
      const std::string reason = refusal(c.d);
      EXPECT_NE(reason.find("of its 64 clusters at once"), std::string::npos) << reason;
    }
  }

 private:
  using PersistentCases<T>::kName;
  using PersistentCases<T>::with;
  using PersistentCases<T>::of;
  using PersistentCases<T>::sample_of;
  using PersistentCases<T>::has;
  using PersistentCases<T>::refusal;
  using PersistentCases<T>::tolerance;
  using PersistentCases<T>::run;
  using PersistentCases<T>::expected;
  using PersistentCases<T>::args_of;
  using PersistentCases<T>::outputs;
  using PersistentCases<T>::poison_outputs;
  using PersistentCases<T>::expect_same_bits;
  using PersistentCases<T>::expect_all_near;
  using typename PersistentCases<T>::Numbers;

  /// NaN are where the oracle has them, all else is near.
  void expect_near_or_nan(Numbers got, Numbers want, double relative) {
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].size(), want[i].size());
      for (std::size_t k = 0; k < want[i].size(); ++k) {
        ASSERT_EQ(std::isnan(got[i][k]), std::isnan(want[i][k])) << "output " << i << '[' << k;
        if (std::isnan(want[i][k])) got[i][k] = want[i][k] = 0;
      }
    }
    expect_all_near(got, want, relative);
  }
  /// Of the rows but one.
  static void expect_same_bits_beside(const DecoderCase& c, std::int64_t row, const Numbers& got,
                                      const Numbers& want) {
    const std::int64_t widths[] = {c.d.output, c.source, c.d.hidden, c.d.hidden};
    for (std::size_t i = 0; i < want.size(); ++i) {
      for (std::int64_t k = 0; k < std::ssize(want[i]); ++k) {
        if (k / widths[i] % c.rows == row) continue;
        const auto at = static_cast<std::size_t>(k);
        ASSERT_EQ(got[i][at], want[i][at]) << "output " << i << '[' << k;
      }
    }
  }

  Tensor copy_of(const Tensor& tensor) {
    const Tensor copy = this->poisoned(tensor.dtype(), tensor.shape());
    this->context_.copy(copy, tensor);
    return copy;
  }

  /// Memory around a tensor that begins `skips` elements behind an aligned address.
  struct Surrounded {
    Tensor whole, inner;
  };
  Surrounded surrounded(const Tensor& like, std::int64_t skips) {
    constexpr std::int64_t kBehind = 8;
    const Tensor whole = this->poisoned(like.dtype(), {skips + like.element_count() + kBehind});
    auto* data = static_cast<std::byte*>(whole.data()) +
                 static_cast<std::size_t>(skips) * base::size_of(like.dtype());
    return {whole, {data, like.dtype(), like.shape()}};
  }
  Tensor moved(const Tensor& tensor, std::int64_t skips) {
    const Tensor inner = surrounded(tensor, skips).inner;
    this->context_.copy(inner, tensor);
    return inner;
  }

  void expect_untouched_around(const Surrounded& memory, std::int64_t skips) {
    const std::vector<double> all = this->numbers(memory.whole);
    const std::int64_t end = skips + memory.inner.element_count();
    for (std::int64_t i = 0; i < std::ssize(all); ++i) {
      const bool inside = i >= skips && i < end;
      ASSERT_NE(inside, std::isnan(all[static_cast<std::size_t>(i)])) << "element " << i;
    }
  }

  /// More rows or positions than were planned for begin nothing.
  void expect_runs_refused(const DecoderCase& planned_for) {
    const Sample<T> sample = sample_of(planned_for, 36);
    const auto planned = this->plan(planned_for.d, std::string(kName), sample.weights);
    for (auto DecoderCase::*extent : {&DecoderCase::rows, &DecoderCase::source}) {
      DecoderCase c = planned_for;
      ++(c.*extent);
      c.source_lengths = c.target_lengths = c.initial_state = false;
      const std::size_t steps = static_cast<std::size_t>(c.time * c.rows);
      oracle::DecoderInput input;
      input.embedded.resize(steps * static_cast<std::size_t>(c.d.embedding));
      input.memory.resize(static_cast<std::size_t>(c.source * c.rows * c.d.memory));
      const ForwardArgs args = args_of(c, input);
      const Error error =
          testing::error_of([&] { planned.plan->forward(this->context_, args, planned.memory); });
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      for (const double number : this->numbers(args.a)) ASSERT_TRUE(std::isnan(number));
    }
  }
};

using InBFloat16 = LaunchChecks<base::BFloat16>;
using InFloat16 = LaunchChecks<base::Float16>;

// Small enough for compute-sanitizer.
TEST_P(PersistentLaunchTest, MatchesTheOracleInTwoSteps) {
  InBFloat16().two_steps();
  InFloat16().two_steps();
}
// NaN is in all that follows from it, and in no other row.
TEST_P(PersistentLaunchTest, KeepsNanInItsRow) {
  InBFloat16().nan();
  InFloat16().nan();
}
TEST_P(PersistentLaunchTest, TakesArraysThatBeginAnywhere) { InBFloat16().addresses(); }
TEST_P(PersistentLaunchTest, ReplaysInAGraph) { InBFloat16().graph(); }
// Each launch wants nearly all multiprocessors, and waits for them before it begins.
TEST_P(PersistentLaunchTest, RunsBesideAnotherStream) { InBFloat16().two_streams(); }
TEST_P(PersistentLaunchTest, RefusesWhatDoesNotFit) { InBFloat16().refusals(); }
// Where not all blocks, which wait for each other, would run at once, nothing is begun.
TEST_P(PersistentLaunchTest, RefusesWhatDoesNotRunAtOnce) { InBFloat16().part_of_gpu(); }

INSTANTIATE_TEST_SUITE_P(Devices, PersistentLaunchTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::attention_decoder
