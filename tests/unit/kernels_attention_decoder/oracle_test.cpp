#include <functional>

#include "unit/kernels_attention_decoder/decoder_runner.h"
#include "unit/kernels_attention_decoder/plain_decoder.h"

namespace sluice::kernels::attention_decoder {
namespace {

/// The kernel's masks as the oracle wants them.
std::vector<std::vector<double>> masks(const DecoderCase& c, const runtime::DropoutKey& key,
                                       const std::vector<std::int32_t>& row_ids) {
  std::vector<std::vector<double>> all;
  const std::uint32_t threshold = runtime::dropout_threshold(c.d.dropout);
  for (std::int64_t l = 0; l + 1 < c.d.layers; ++l) {
    runtime::DropoutKey layer = key;
    layer.stream += static_cast<std::uint32_t>(l);
    std::vector<double>& mask = all.emplace_back();
    for (std::int64_t t = 0; t < c.time; ++t) {
      for (std::int64_t row = 0; row < c.rows; ++row) {
        const auto id = static_cast<std::uint32_t>(
            row_ids.empty() ? row : row_ids[static_cast<std::size_t>(row)]);
        for (std::int64_t unit = 0; unit < c.d.hidden; ++unit) {
          const std::uint32_t word =
              layer.word(id, static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(unit));
          mask.push_back(word >= threshold ? 1 / (1 - c.d.dropout) : 0.0);
        }
      }
    }
  }
  return all;
}

template <typename T>
class OracleTest : public DecoderTest<T> {
 protected:
  void check(const DecoderCase& c, std::uint64_t seed, const std::string& name, double tolerance,
             double weight_scale = 1, const std::function<void(Sample<T>&)>& adapt = {}) {
    SCOPED_TRACE(name + " " + describe(c) + " seed " + std::to_string(seed));
    Sample<T> sample(c, seed);
    for (auto* array : Sample<T>::arrays(sample.weights)) {
      for (double& weight : *array) weight *= weight_scale;
    }
    if (adapt) adapt(sample);
    auto planned = this->plan(c.d, name, sample.weights);
    ForwardArgs forward = this->forward_args(c, sample.input);
    if (c.d.dropout > 0) {
      std::vector<std::int32_t> ids;
      for (std::int64_t row = 0; row < c.rows; ++row) {
        ids.push_back(static_cast<std::int32_t>(row * 7 % 31));
      }
      const runtime::DropoutKey key{seed, 3, 5};
      forward.dropout = this->put_key(key);
      forward.row_ids = this->put(ids);
      sample.input.dropout = masks(c, key, ids);
    }
    oracle::DecoderWeights start = oracle::zero_weights(sample.shape);
    for (auto* array : Sample<T>::arrays(start)) *array = sample.draw(array->size());
    const BackwardArgs backward =
        this->backward_args(c, forward, sample.input, sample.gradients, start);
    planned.plan->forward(this->context_, forward, planned.memory);
    planned.plan->backward(this->context_, backward, planned.memory);

    const auto want = oracle::forward(sample.shape, sample.weights, sample.input);
    auto want_back =
        oracle::backward(sample.shape, sample.weights, sample.input, want, sample.gradients);
    this->expect_near(this->numbers(forward.a), want.a, "a", tolerance);
    this->expect_near(this->numbers(forward.alpha), want.alpha, "alpha", tolerance);
    this->expect_near(this->numbers(forward.hn), want.hn, "hn", tolerance);
    this->expect_near(this->numbers(backward.d_emb), want_back.dembedded, "d_emb", tolerance);
    this->expect_near(this->numbers(backward.d_memory), want_back.dmemory, "d_memory", tolerance);
    this->expect_near(this->numbers(backward.dh0), want_back.dh0, "dh0", tolerance);
    if (c.d.cell == CellType::kLstm) {
      this->expect_near(this->numbers(forward.cn), want.cn, "cn", tolerance);
      this->expect_near(this->numbers(backward.dc0), want_back.dc0, "dc0", tolerance);
    }
    const auto got = this->tensors(backward.gradients);
    const auto before = Sample<T>::arrays(start);
    const auto added = Sample<T>::arrays(want_back.weights);
    ASSERT_EQ(got.size(), added.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      for (std::size_t k = 0; k < added[i]->size(); ++k) (*added[i])[k] += (*before[i])[k];
      this->expect_near(this->numbers(got[i]), *added[i], "gradient " + std::to_string(i),
                        tolerance);
    }
  }

  void check_random(int count, double dropout) {
    check_random(count, dropout, [](const DecoderCase& c) { return OracleTest::tolerance(c); });
  }

  /// So many that a GPU's block for a row has fewer threads, which take several positions of keys
  /// and values each. Sums of so many terms would have gates that are all open or shut, but for
  /// small weights.
  template <typename Tolerance>
  void check_many_rows(Tolerance tolerance) {
    std::mt19937_64 engine(13);
    for (const auto attention : {AttentionType::kAdditive, AttentionType::kMultiplicative}) {
      const bool additive = attention == AttentionType::kAdditive;
      DecoderCase c = random_case(engine, CellType::kLstm, attention, base::dtype_of<T>());
      c.d.rows = c.rows = additive ? 300 : 150;
      c.d.source_time = c.source = 23;
      c.d.target_time = c.time = 2;
      c.d.layers = 1;
      c.d.memory = 290;
      c.d.hidden = additive ? 20 : 273;
      if (additive) c.d.key = 261;
      for (const Candidate& candidate : candidates(*this->device_)) {
        if (!this->takes(candidate, c.d)) continue;
        check(c, engine(), std::string(candidate.name), tolerance(c), 0x1p-3);
        this->release_memory();
      }
    }
  }

  /// Keys of whole multiples of 16, exact in 16 bits: of some the exponential is too large for
  /// factors of a sum's.
  template <typename Tolerance>
  void check_large_keys(Tolerance tolerance) {
    std::mt19937_64 engine(15);
    DecoderCase c =
        random_case(engine, CellType::kLstm, AttentionType::kAdditive, base::dtype_of<T>());
    c.d.memory = 6;
    for (const Candidate& candidate : candidates(*this->device_)) {
      if (!this->takes(candidate, c.d)) continue;
      check(c, engine(), std::string(candidate.name), tolerance(c), 1, [](Sample<T>& sample) {
        for (double& x : sample.weights.attention.memory) x = x < 0 ? -16 : 16;
        for (double& x : sample.input.memory) x = x < 0 ? -1 : 1;
      });
      this->release_memory();
    }
  }

  template <typename Tolerance>
  void check_random(int count, double dropout, Tolerance tolerance) {
    std::mt19937_64 engine(dropout > 0 ? 11 : 12);
    // No relu, whose kink a rounding may pass.
    for (const CellType cell :
         {CellType::kLstm, CellType::kGru, CellType::kGruResetBefore, CellType::kRnnTanh}) {
      for (const auto attention : {AttentionType::kAdditive, AttentionType::kMultiplicative}) {
        for (int i = 0; i < count; ++i) {
          DecoderCase c = random_case(engine, cell, attention, base::dtype_of<T>());
          c.d.tf32 = this->context_.tf32();
          // A gradient of one number, whose terms may cancel, has no scale to round by.
          if (sizeof(T) == 2) c.d.hidden = std::max<std::int64_t>(c.d.hidden, 2);
          c.d.dropout = dropout;
          if (dropout > 0) c.d.layers = 2 + i % 2;
          for (const Candidate& candidate : candidates(*this->device_)) {
            if (!this->takes(candidate, c.d)) continue;
            check(c, engine(), std::string(candidate.name), tolerance(c));
            this->release_memory();
          }
        }
      }
    }
  }

  static DecoderCase decoder_of(std::int64_t layers, std::int64_t hidden, std::int64_t time) {
    DecoderCase c;
    c.d = {CellType::kLstm, AttentionType::kAdditive, layers, 40, hidden, 70, 50, 90};
    c.d.dtype = base::dtype_of<T>();
    c.d.target_time = c.time = time;
    c.d.source_time = c.source = 33;
    c.d.rows = c.rows = 12;
    return c;
  }

  /// Large enough for gates to leave their linear range, small enough not to saturate them.
  static Sample<T> half_open_sample(const DecoderCase& c, std::uint64_t seed) {
    Sample<T> sample(c, seed);
    for (auto* array : Sample<T>::arrays(sample.weights)) {
      for (double& weight : *array) weight *= 3 / std::sqrt(static_cast<double>(c.d.hidden));
    }
    // Rows that all end at once would leave nothing to compare.
    sample.input.lengths.front() = static_cast<int>(c.time);
    sample.input.memory_lengths.front() = static_cast<int>(c.source);
    return sample;
  }

  void check_accuracy(const DecoderCase& c, std::uint64_t seed) {
    SCOPED_TRACE(describe(c));
    const Sample<T> sample = half_open_sample(c, seed);
    const auto exact = oracle::forward(sample.shape, sample.weights, sample.input);
    const PlainOutputs plain = plain_outputs(sample.shape, sample.weights, sample.input, c.d.dtype);
    for (const Candidate& candidate : candidates(*this->device_)) {
      if (!this->takes(candidate, c.d)) continue;
      SCOPED_TRACE(candidate.name);
      const auto planned = this->plan(c.d, std::string(candidate.name), sample.weights);
      const ForwardArgs args = this->forward_args(c, sample.input);
      planned.plan->forward(this->context_, args, planned.memory);
      expect_near_plain(args.a, plain.a, exact.a, "a");
      expect_near_plain(args.alpha, plain.alpha, exact.alpha, "alpha");
      expect_near_plain(args.hn, plain.hn, exact.hn, "hn");
      expect_near_plain(args.cn, plain.cn, exact.cn, "cn");
      this->release_memory();
    }
  }
  void expect_near_plain(const Tensor& got, const std::vector<double>& plain,
                         const std::vector<double>& exact, const std::string& name) {
    const double last_place = 0x1p-23 * this->distance(exact, {});
    EXPECT_LE(this->distance(this->numbers(got), exact),
              2 * this->distance(plain, exact) + last_place)
        << name;
  }

  void check_accuracy() {
    check_accuracy(decoder_of(1, 60, 40), 51);
    check_accuracy(decoder_of(3, 130, 12), 52);
    check_accuracy(decoder_of(2, 530, 12), 53);
  }
};

using OracleTestFloat64 = OracleTest<double>;
using OracleTestFloat32 = OracleTest<float>;
using OracleTestBFloat16 = OracleTest<base::BFloat16>;
using OracleTestFloat16 = OracleTest<base::Float16>;

/// Where factors of products, or all that is stored, are rounded by `rounding` while sums are wide:
/// the roundings are independent and of either sign, so they add up by their squares. Each number
/// passes some 4 of them a layer and step, forward and backward, each a little changed by those
/// before; 4 standard deviations leave room for the largest of some thousands. A plain RNN hands on
/// the whole of a step's error where gates hand on a part of it, which is given twice the room.
double rounded_tolerance(const DecoderCase& c, double rounding) {
  using kernels::recurrent::CellType;
  const bool plain = c.d.cell == CellType::kRnnTanh || c.d.cell == CellType::kRnnRelu;
  const auto roundings = static_cast<double>(2 * 4 * c.time * (c.d.layers + 1));
  return (plain ? 8 : 4) * rounding * std::sqrt(roundings);
}

TEST_P(OracleTestFloat64, MatchesOnRandomShapes) { check_random(10, 0); }
TEST_P(OracleTestFloat32, MatchesOnRandomShapes) { check_random(10, 0); }
TEST_P(OracleTestFloat64, MatchesWithDropout) { check_random(3, 0.3); }
TEST_P(OracleTestFloat32, MatchesWithDropout) { check_random(3, 0.3); }

TEST_P(OracleTestFloat32, MatchesWithManyRows) {
  check_many_rows([](const DecoderCase& c) { return OracleTest::tolerance(c); });
}

TEST_P(OracleTestFloat32, MatchesWithTf32) {
  if (device_->runs_host_kernels()) GTEST_SKIP() << "this device has no TF32";
  context_.set_precision({DType::kFloat32, true});
  check_random(5, 0, [](const DecoderCase& c) { return rounded_tolerance(c, 0x1p-11); });
  check_random(2, 0.3, [](const DecoderCase& c) { return rounded_tolerance(c, 0x1p-11); });
}

/// Of those implementations that have it.
TEST_P(OracleTestBFloat16, MatchesOnRandomShapes) {
  check_random(10, 0, [](const DecoderCase& c) { return rounded_tolerance(c, 0x1p-9); });
}
TEST_P(OracleTestBFloat16, MatchesWithDropout) {
  check_random(3, 0.3, [](const DecoderCase& c) { return rounded_tolerance(c, 0x1p-9); });
}

TEST_P(OracleTestBFloat16, MatchesWithManyRows) {
  check_many_rows([](const DecoderCase& c) { return rounded_tolerance(c, 0x1p-9); });
}

TEST_P(OracleTestBFloat16, MatchesWithLargeKeys) {
  check_large_keys([](const DecoderCase& c) { return rounded_tolerance(c, 0x1p-9); });
}

TEST_P(OracleTestFloat16, MatchesOnRandomShapes) {
  check_random(10, 0, [](const DecoderCase& c) { return rounded_tolerance(c, 0x1p-11); });
}

// Storing what steps hand on costs every implementation the same; what it does beside that must not
// cost as much again. In float32 a unit in the last place is left to the activations: ours err by
// up to three, the C library's by one.
TEST_P(OracleTestFloat32, ErrsAtMostTwiceAsMuchAsPlainCode) { check_accuracy(); }
TEST_P(OracleTestBFloat16, ErrsAtMostTwiceAsMuchAsPlainCode) { check_accuracy(); }
TEST_P(OracleTestFloat16, ErrsAtMostTwiceAsMuchAsPlainCode) { check_accuracy(); }

INSTANTIATE_TEST_SUITE_P(Devices, OracleTestFloat64, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, OracleTestFloat32, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, OracleTestBFloat16, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, OracleTestFloat16, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::attention_decoder
