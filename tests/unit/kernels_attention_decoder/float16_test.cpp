#include "unit/kernels_attention_decoder/decoder_runner.h"
#include "unit/kernels_attention_decoder/plain_decoder.h"

/// Training in TF32 by the steps of float16, on GPUs; oracle_test.cpp has its random shapes.
namespace sluice::kernels::attention_decoder {
namespace {

class Float16Test : public DecoderTest<float> {
 protected:
  void SetUp() override {
    DecoderTest<float>::SetUp();
    if (device_->runs_host_kernels()) GTEST_SKIP() << "this device has no TF32";
    context_.set_precision({DType::kFloat32, true});
  }

  static DecoderCase wide(AttentionType attention) {
    DecoderCase c;
    c.d = {CellType::kLstm,
           attention,
           2,
           60,
           90,
           50,
           attention == AttentionType::kAdditive ? 40 : 0,
           70};
    c.d.target_time = c.time = 6;
    c.d.source_time = c.source = 9;
    c.d.rows = c.rows = 33;
    c.d.training = true;
    return c;
  }

  /// Whether the device has it; it must not refuse what it is made for.
  bool can_run(const DecoderCase& c, std::string_view name) {
    Descriptor d = c.d;
    d.tf32 = true;
    for (const Candidate& candidate : candidates(*device_)) {
      if (candidate.name != name) continue;
      const auto reason = candidate.refuse(d, *device_);
      EXPECT_TRUE(!reason || reason->find("compute capability") != std::string::npos) << *reason;
      return !reason;
    }
    return false;
  }

  /// Outputs of forward, then of backward, then gradients of weights, which begin at zero.
  std::vector<std::vector<double>> run(const DecoderCase& c, const Sample<float>& sample,
                                       const std::string& name) {
    auto planned = plan(c.d, name, sample.weights);
    const ForwardArgs forward = forward_args(c, sample.input);
    const BackwardArgs backward = backward_args(c, forward, sample.input, sample.gradients,
                                                oracle::zero_weights(sample.shape));
    planned.plan->forward(context_, forward, planned.memory);
    planned.plan->backward(context_, backward, planned.memory);
    std::vector<std::vector<double>> all;
    for (const Tensor& tensor : {forward.a, forward.alpha, forward.hn, forward.cn}) {
      all.push_back(numbers(tensor));
    }
    for (const Tensor& tensor :
         {backward.d_emb, backward.d_memory, backward.dh0, backward.dc0, backward.da0}) {
      all.push_back(numbers(tensor));
    }
    for (const Tensor& tensor : tensors(backward.gradients)) all.push_back(numbers(tensor));
    return all;
  }
  static constexpr std::size_t kForwardOutputs = 4;

  static std::vector<std::vector<double>> expected(const Sample<float>& sample) {
    const auto forward = oracle::forward(sample.shape, sample.weights, sample.input);
    auto backward =
        oracle::backward(sample.shape, sample.weights, sample.input, forward, sample.gradients);
    std::vector<std::vector<double>> all{forward.a,    forward.alpha,      forward.hn,
                                         forward.cn,   backward.dembedded, backward.dmemory,
                                         backward.dh0, backward.dc0,       {}};
    for (const auto* array : Sample<float>::arrays(backward.weights)) all.push_back(*array);
    return all;
  }
};

/// Both round numbers to eleven bits: TF32 the factors of products, whose errors a sum of many
/// terms averages, these also keys, gates and gradients where they are kept. By one rounding of its
/// own a number errs by as much as by its product's; two or three such in a chain, independent and
/// of either sign, are sqrt(6) of one's error at most.
TEST_P(Float16Test, ErrsAsTf32Does) {
  for (const auto attention : {AttentionType::kAdditive, AttentionType::kMultiplicative}) {
    const DecoderCase c = wide(attention);
    const Sample<float> sample(c, 17);
    const auto want = expected(sample);
    const auto rounded = run(c, sample, "stepwise"), halves = run(c, sample, "stepwise-float16");
    ASSERT_EQ(halves.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (want[i].empty()) continue;
      const double error = distance(halves[i], want[i]), allowed = distance(rounded[i], want[i]);
      EXPECT_GT(allowed, 0) << "output " << i;
      EXPECT_LE(error, 0x1p-7 * distance(want[i], {})) << "output " << i << " of " << describe(c);
      EXPECT_LE(error, 2.5 * allowed) << "output " << i << " of " << describe(c);
    }
  }
}

/// So many units run forward in one launch where the GPU has it. Forward stores what a plain
/// decoder of float16 does, and of context its products with the output's weights instead; backward
/// stores what it does behind single steps. Either errs at most twice as much.
TEST_P(Float16Test, ErrsInOneLaunchAsElsewhere) {
  DecoderCase c = wide(AttentionType::kAdditive);
  c.d.hidden = 530;
  c.d.rows = c.rows = 9;
  const std::string name = "persistent-float16";
  if (!can_run(c, name)) GTEST_SKIP() << "this device has no such launch";
  Sample<float> sample(c, 19);
  for (auto* array : Sample<float>::arrays(sample.weights)) {
    for (double& weight : *array) weight *= 0x1p-3;
  }
  const auto want = expected(sample), got = run(c, sample, name);
  const PlainOutputs plain =
      plain_outputs(sample.shape, sample.weights, sample.input, DType::kFloat16);
  auto allowed = run(c, sample, "stepwise-float16");
  allowed[0] = plain.a;
  allowed[1] = plain.alpha;
  allowed[2] = plain.hn;
  allowed[3] = plain.cn;
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (want[i].empty()) continue;
    EXPECT_LE(distance(got[i], want[i]), 2 * distance(allowed[i], want[i])) << "output " << i;
  }
  const auto again = run(c, sample, name);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], again[i]) << "output " << i;
  EXPECT_EQ(make_plan(context_, c.d).plan->implementation(), name);
}

/// The power of two takes gradients of any size to the same numbers.
TEST_P(Float16Test, TinyAndLargeGradientsAreScaledExactly) {
  const DecoderCase c = wide(AttentionType::kAdditive);
  const Sample<float> sample(c, 18);
  const auto want = run(c, sample, "stepwise-float16");
  for (const double factor : {0x1p-60, 0x1p-21, 0x1p40}) {
    Sample<float> scaled = sample;
    for (auto* array : {&scaled.gradients.da, &scaled.gradients.dhn, &scaled.gradients.dcn}) {
      for (double& number : *array) number *= factor;
    }
    const auto got = run(c, scaled, "stepwise-float16");
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double by = i < kForwardOutputs ? 1 : factor;
      for (std::size_t k = 0; k < want[i].size(); ++k) {
        ASSERT_EQ(got[i][k], want[i][k] * by) << "output " << i << ", times " << factor;
      }
    }
  }
}

/// Small states and large weights of the output: what flows in grows some 20,000 times, beyond
/// float16 where it is kept, while float32 has room.
TEST_P(Float16Test, GradientsThatGrowAreCutOff) {
  for (const auto attention : {AttentionType::kAdditive, AttentionType::kMultiplicative}) {
    const DecoderCase c = wide(attention);
    Sample<float> sample(c, 20);
    for (auto* array :
         {&sample.input.embedded, &sample.input.memory, &sample.input.h0, &sample.input.c0}) {
      for (double& number : *array) number *= 0x1p-20;
    }
    for (oracle::Weights& cell : sample.weights.cells) {
      for (auto* bias : {&cell.bias_ih, &cell.bias_hh}) std::fill(bias->begin(), bias->end(), 0.0);
    }
    for (double& number : sample.weights.combine) number *= 0x1p13;
    std::fill(sample.weights.combine_bias.begin(), sample.weights.combine_bias.end(), 0.0);
    double largest = 0;
    for (const std::vector<double>& output : run(c, sample, "stepwise-float16")) {
      for (const double number : output) {
        ASSERT_TRUE(std::isfinite(number));
        largest = std::max(largest, std::abs(number));
      }
    }
    EXPECT_GT(largest, 2000);
  }
}

TEST_P(Float16Test, HasNoSingleSteps) {
  const DecoderCase c = wide(AttentionType::kAdditive);
  auto planned = plan(c.d, "stepwise-float16", Sample<float>(c, 19).weights);
  EXPECT_EQ(planned.plan->implementation(), "stepwise-float16");
  EXPECT_THROW(planned.plan->step(context_, {}, planned.memory), Error);
  EXPECT_THROW(planned.plan->prepare_memory(context_, {}, planned.memory), Error);
}

TEST_P(Float16Test, IsForTrainingAnLstmInTf32) {
  DecoderCase c = wide(AttentionType::kAdditive);
  const auto chosen = [&] { return std::string(make_plan(context_, c.d).plan->implementation()); };
  EXPECT_EQ(chosen(), "stepwise-float16");
  c.d.training = false;
  EXPECT_EQ(chosen(), "stepwise");
  c.d.training = true;
  c.d.cell = CellType::kGru;
  EXPECT_EQ(chosen(), "stepwise");
  c.d.cell = CellType::kLstm;
  context_.set_precision({DType::kFloat32, false});
  EXPECT_EQ(chosen(), "stepwise");
}

INSTANTIATE_TEST_SUITE_P(Devices, Float16Test, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::attention_decoder
