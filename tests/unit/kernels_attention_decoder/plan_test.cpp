#include <omp.h>

#include "unit/kernels_attention_decoder/decoder_runner.h"
#include "unit/support/temporary_folder.h"

namespace sluice::kernels::attention_decoder {
namespace {

class PlanTest : public DecoderTest<float> {
 protected:
  static DecoderCase wide(CellType cell, AttentionType attention, std::int64_t rows) {
    DecoderCase c;
    c.d = {cell, attention, 2, 60, 90, 50, attention == AttentionType::kAdditive ? 40 : 0, 70};
    c.d.target_time = c.time = 3;
    c.d.source_time = c.source = 5;
    c.d.rows = c.rows = rows;
    c.d.training = true;
    return c;
  }

  /// All outputs but weight gradients, which the batch does sum.
  std::vector<std::vector<float>> run(const DecoderCase& c, const Sample<float>& sample,
                                      const ForwardArgs& forward, const BackwardArgs& backward) {
    auto planned = plan(c.d, rowwise(), sample.weights);
    planned.plan->forward(context_, forward, planned.memory);
    planned.plan->backward(context_, backward, planned.memory);
    std::vector<std::vector<float>> all;
    for (const Tensor& tensor : {forward.a, forward.alpha, forward.hn, backward.d_emb,
                                 backward.d_memory, backward.dh0, backward.da0}) {
      all.push_back(get<float>(tensor));
    }
    return all;
  }

  std::vector<std::vector<float>> run(const DecoderCase& c, const Sample<float>& sample) {
    const ForwardArgs forward = forward_args(c, sample.input);
    const auto zeros = oracle::zero_weights(sample.shape);
    return run(c, sample, forward,
               backward_args(c, forward, sample.input, sample.gradients, zeros));
  }
};

/// Of [outer, rows, width] the one row.
template <typename V>
std::vector<V> row_of(const std::vector<V>& values, std::int64_t rows, std::int64_t row,
                      std::int64_t width) {
  std::vector<V> out;
  for (std::size_t at = 0; at < values.size(); at += static_cast<std::size_t>(rows * width)) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at) + row * width;
    out.insert(out.end(), begin, begin + width);
  }
  return out;
}

TEST_P(PlanTest, ARowHasTheSameBitsAloneAndInABatch) {
  for (const CellType cell : kGatedCells) {
    for (const auto attention : {AttentionType::kAdditive, AttentionType::kMultiplicative}) {
      const DecoderCase batch = wide(cell, attention, 35);
      SCOPED_TRACE(describe(batch));
      Sample<float> sample(batch, 3);
      const auto together = run(batch, sample);
      const Descriptor& d = batch.d;
      const std::int64_t widths[] = {d.output, batch.source, d.hidden, d.embedding,
                                     d.memory, d.hidden,     d.output};
      for (const std::int64_t row : {0, 17, 34}) {
        DecoderCase one = batch;
        one.rows = one.d.rows = 1;
        Sample<float> alone(one, 4);
        alone.weights = sample.weights;
        const auto pick = [&](const auto& values, std::int64_t width) {
          return values.empty() ? values : row_of(values, batch.rows, row, width);
        };
        alone.input = {pick(sample.input.embedded, d.embedding),
                       pick(sample.input.memory, d.memory),
                       pick(sample.input.memory_lengths, 1),
                       pick(sample.input.lengths, 1),
                       pick(sample.input.h0, d.hidden),
                       pick(sample.input.c0, d.hidden),
                       {}};
        alone.gradients = {pick(sample.gradients.da, d.output),
                           pick(sample.gradients.dhn, d.hidden),
                           pick(sample.gradients.dcn, d.hidden)};
        const auto single = run(one, alone);
        for (std::size_t i = 0; i < single.size(); ++i) {
          expect_same(testing::widened(single[i]),
                      testing::widened(row_of(together[i], batch.rows, row, widths[i])),
                      fmt::format("output {} of row {}", i, row), tolerance(batch));
        }
        release_memory();
      }
    }
  }
}

/// OpenMP's thread count belongs to the calling thread, which runs the kernels of "cpu" only.
TEST_P(PlanTest, ThreadCountChangesNoBits) {
  if (device_->type() != runtime::DeviceType::kCpu)
    GTEST_SKIP() << "only the cpu device has OpenMP threads";
  const int before = omp_get_max_threads();
  for (const std::int64_t rows : {3, 40}) {
    const DecoderCase c = wide(CellType::kLstm, AttentionType::kAdditive, rows);
    const Sample<float> sample(c, 8);
    omp_set_num_threads(1);
    const auto one = run(c, sample);
    for (const int threads : {2, 5}) {
      omp_set_num_threads(threads);
      const auto several = run(c, sample);
      for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_TRUE(testing::same_bits(one[i], several[i])) << rows << " rows, output " << i;
      }
    }
    omp_set_num_threads(before);
  }
}

TEST_P(PlanTest, OptionalTensorsMayBeAbsent) {
  const DecoderCase c = wide(CellType::kLstm, AttentionType::kAdditive, 4);
  const Sample<float> sample(c, 9);
  auto planned = plan(c.d, "auto", sample.weights);
  const ForwardArgs full = forward_args(c, sample.input);
  ForwardArgs bare = full;
  bare.a = poisoned(DType::kFloat32, full.a.shape());
  bare.alpha = bare.hn = bare.cn = {};
  planned.plan->forward(context_, full, planned.memory);
  planned.plan->forward(context_, bare, planned.memory);
  EXPECT_EQ(get<float>(full.a), get<float>(bare.a));
  BackwardArgs backward;
  backward.forward = bare;
  backward.da = put_numbers(sample.gradients.da, full.a.shape());
  backward.gradients.output_bias = put(std::vector<float>(static_cast<std::size_t>(c.d.output)));
  EXPECT_NO_THROW(planned.plan->backward(context_, backward, planned.memory));
  for (const float v : get<float>(backward.gradients.output_bias)) EXPECT_TRUE(std::isfinite(v));
}

TEST_P(PlanTest, InferencePlanGivesTheSameBits) {
  const DecoderCase c = wide(CellType::kGru, AttentionType::kMultiplicative, 4);
  const Sample<float> sample(c, 10);
  Descriptor inference = c.d;
  inference.training = false;
  inference.dropout = 0.5;  // applies to training only
  auto training_plan = plan(c.d, rowwise(), sample.weights);
  auto inference_plan = plan(inference, rowwise(), sample.weights);
  EXPECT_EQ(inference_plan.plan->reserve_bytes(), 0u);
  const ForwardArgs first = forward_args(c, sample.input), second = forward_args(c, sample.input);
  training_plan.plan->forward(context_, first, training_plan.memory);
  inference_plan.plan->forward(context_, second, inference_plan.memory);
  EXPECT_EQ(get<float>(first.a), get<float>(second.a));
  EXPECT_EQ(get<float>(first.alpha), get<float>(second.alpha));
  EXPECT_EQ(get<float>(first.hn), get<float>(second.hn));
}

/// Forward and backward again, with other memory, and captured in a graph where there are graphs.
TEST_P(PlanTest, RepeatsToTheBit) {
  for (const CellType cell : kGatedCells) {
    for (const auto attention : {AttentionType::kAdditive, AttentionType::kMultiplicative}) {
      DecoderCase c = wide(cell, attention, 35);
      SCOPED_TRACE(describe(c));
      c.d.dropout = 0.25;
      const Sample<float> sample(c, 12);
      const auto zeros = oracle::zero_weights(sample.shape);
      auto planned = plan(c.d, "auto", sample.weights);
      const auto run = [&](bool captured) {
        ForwardArgs forward = forward_args(c, sample.input);
        forward.dropout = put_key({7, 8, 9});
        const BackwardArgs backward =
            backward_args(c, forward, sample.input, sample.gradients, zeros);
        const auto work = [&] {
          planned.plan->forward(context_, forward, planned.memory);
          planned.plan->backward(context_, backward, planned.memory);
        };
        if (captured) {
          context_.stream().capture(work)->launch(context_.stream());
        } else {
          work();
        }
        std::vector<Tensor> out = tensors(backward.gradients);
        for (const Tensor& tensor : {forward.a, forward.alpha, forward.hn, backward.d_emb,
                                     backward.d_memory, backward.dh0, backward.da0}) {
          out.push_back(tensor);
        }
        std::vector<std::vector<float>> values;
        for (const Tensor& tensor : out) values.push_back(get<float>(tensor));
        return values;
      };
      const auto first = run(false);
      const auto second = run(context_.stream().can_capture());
      for (std::size_t i = 0; i < first.size(); ++i) {
        EXPECT_TRUE(testing::same_bits(first[i], second[i])) << "output " << i;
      }
      release_memory();
    }
  }
}

TEST_P(PlanTest, RefusesWhatDoesNotFit) {
  const DecoderCase c = wide(CellType::kLstm, AttentionType::kAdditive, 4);
  const Sample<float> sample(c, 11);
  auto planned = plan(c.d, "auto", sample.weights);
  const ForwardArgs good = forward_args(c, sample.input);
  const auto refused = [&](auto change) {
    ForwardArgs bad = good;
    change(bad);
    EXPECT_THROW(planned.plan->forward(context_, bad, planned.memory), Error);
  };
  refused([](ForwardArgs& args) { args.target_time = 4; });
  refused([](ForwardArgs& args) { args.rows = 5; });
  refused([](ForwardArgs& args) { args.emb = {}; });
  refused([](ForwardArgs& args) { args.memory = args.emb; });
  refused([](ForwardArgs& args) { args.source_lengths = args.a; });
  refused([](ForwardArgs& args) { args.a = args.a.slice(2, 0, 69); });
  EXPECT_THROW(planned.plan->forward(context_, good, {}), Error);
  Weights weights = put_weights(c.d, sample.weights);
  weights.score_vector = {};
  EXPECT_THROW(planned.plan->pack(context_, weights, planned.memory), Error);

  Descriptor d = c.d;
  d.key = 0;
  EXPECT_THROW(make_plan(context_, d), Error);
  d = c.d;
  d.attention = AttentionType::kMultiplicative;
  EXPECT_THROW(make_plan(context_, d), Error);
  d = c.d;
  d.dtype = DType::kInt32;
  EXPECT_THROW(make_plan(context_, d), Error);
  EXPECT_THROW(make_plan(context_, c.d, "nameless"), Error);
  EXPECT_THROW(parse_attention("dot"), Error);
  EXPECT_EQ(parse_attention(name_of(AttentionType::kAdditive)), AttentionType::kAdditive);
}

INSTANTIATE_TEST_SUITE_P(Devices, PlanTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::attention_decoder
