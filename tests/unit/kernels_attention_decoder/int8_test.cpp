#include "unit/kernels_attention_decoder/decoder_runner.h"

namespace sluice::kernels::attention_decoder {
namespace {

/// Products of 8 bits.
class DecoderInt8Test : public DecoderTest<float> {
 protected:
  template <typename Body>
  void each_case(int count, const Body& body) {
    std::mt19937_64 engine(21);
    for (const CellType cell :
         {CellType::kLstm, CellType::kGru, CellType::kGruResetBefore, CellType::kRnnTanh}) {
      for (const auto attention : {AttentionType::kAdditive, AttentionType::kMultiplicative}) {
        for (int i = 0; i < count; ++i) {
          DecoderCase c = random_case(engine, cell, attention, DType::kFloat32);
          c.d.training = false;
          c.d.int8 = true;
          const std::uint64_t seed = engine();
          for (const Candidate& candidate : candidates(*device_)) {
            const std::string name(candidate.name);
            if (!name.starts_with("int8-") || !takes(candidate, c.d)) continue;
            SCOPED_TRACE(name + " " + describe(c));
            body(c, name, seed);
            release_memory();
          }
        }
      }
    }
  }

  ForwardArgs run(const DecoderCase& c, const std::string& name, const Sample<float>& sample) {
    auto planned = plan(c.d, name, sample.weights);
    const ForwardArgs forward = forward_args(c, sample.input);
    planned.plan->forward(context_, forward, planned.memory);
    context_.synchronize();
    return forward;
  }
};

INSTANTIATE_TEST_SUITE_P(, DecoderInt8Test, testing::host_devices(), testing::device_name);

/// Of the differences, relative to the largest number that is wanted, at least 1e-3.
double root_mean_square(const std::vector<double>& got, const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size());
  double squares = 0, largest = 1e-3;
  for (std::size_t i = 0; i < want.size(); ++i) {
    squares += (got[i] - want[i]) * (got[i] - want[i]);
    largest = std::max(largest, std::abs(want[i]));
  }
  return std::sqrt(squares / static_cast<double>(want.size())) / largest;
}

// Either side of a product is rounded by up to a 254th of the largest of its row, independently:
// in the mean square a 440th, and both a 311th. A number passes some four products a step and
// layer, each of which hands on what those before were off by, plain cells more than once. One
// number may be off by more.
TEST_P(DecoderInt8Test, IsCloseToTheOracle) {
  each_case(6, [&](const DecoderCase& c, const std::string& name, std::uint64_t seed) {
    const Sample<float> sample(c, seed);
    const ForwardArgs got = run(c, name, sample);
    const auto want = oracle::forward(sample.shape, sample.weights, sample.input);
    const double rounding = 2 * std::sqrt(static_cast<double>(4 * c.time * (c.d.layers + 1))) / 311;
    EXPECT_LE(root_mean_square(numbers(got.a), want.a), rounding);
    EXPECT_LE(root_mean_square(numbers(got.hn), want.hn), rounding);
  });
}

// A single step, as decoding takes it, rounds what the whole sequence rounds.
TEST_P(DecoderInt8Test, StepsGiveTheBitsOfTheSequence) {
  each_case(3, [&](DecoderCase c, const std::string& name, std::uint64_t seed) {
    c.target_lengths = false;
    const Sample<float> sample(c, seed);
    const ForwardArgs whole = run(c, name, sample);
    auto planned = plan(c.d, name, sample.weights);
    const Plan& decoder = *planned.plan;
    PrepareArgs prepare;
    prepare.source_time = c.source;
    prepare.inputs = c.rows;
    prepare.memory = whole.memory;
    prepare.source_lengths = whole.source_lengths;
    prepare.keys = poisoned(DType::kFloat32, {c.rows, c.source, decoder.key_stride()});
    prepare.values = poisoned(DType::kFloat32, {c.rows, c.source, decoder.value_stride()});
    planned.plan->prepare_memory(context_, prepare, planned.memory);
    const Shape state{c.d.layers, c.rows, c.d.hidden}, fed{c.rows, c.d.output};
    const auto zeros = [&](const Shape& shape) {
      return put(std::vector<float>(static_cast<std::size_t>(shape.element_count())), shape);
    };
    StepArgs step;
    step.source_time = c.source;
    step.inputs = step.rows = c.rows;
    step.keys = prepare.keys;
    step.values = prepare.values;
    step.source_lengths = whole.source_lengths;
    step.h = step.h_next = whole.h0 ? whole.h0 : zeros(state);
    const bool lstm = c.d.cell == CellType::kLstm;
    if (lstm) step.c = step.c_next = whole.c0 ? whole.c0 : zeros(state);
    step.a = step.a_next = zeros(fed);
    const auto all = numbers(whole.a);
    const auto width = c.rows * c.d.output;
    for (std::int64_t t = 0; t < c.time; ++t) {
      step.emb = whole.emb.select(0, t);
      planned.plan->step(context_, step, planned.memory);
      EXPECT_EQ(numbers(step.a_next),
                std::vector<double>(all.begin() + t * width, all.begin() + (t + 1) * width))
          << t;
    }
  });
}

}  // namespace
}  // namespace sluice::kernels::attention_decoder
