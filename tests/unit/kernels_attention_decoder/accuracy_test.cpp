#include "unit/kernels_attention_decoder/decoder_runner.h"
#include "unit/kernels_attention_decoder/plain_decoder.h"

namespace sluice::kernels::attention_decoder {
namespace {

template <typename T>
class AccuracyTest : public DecoderTest<T> {
 protected:
  static DecoderCase decoder(std::int64_t layers, std::int64_t hidden, std::int64_t time) {
    DecoderCase c;
    c.d = {CellType::kLstm, AttentionType::kAdditive, layers, 40, hidden, 70, 50, 90};
    c.d.dtype = base::dtype_of<T>();
    c.d.target_time = c.time = time;
    c.d.source_time = c.source = 33;
    c.d.rows = c.rows = 12;
    return c;
  }

  /// Large enough for gates to leave their linear range, small enough not to saturate them.
  static Sample<T> sample_of(const DecoderCase& c, std::uint64_t seed) {
    Sample<T> sample(c, seed);
    for (auto* array : Sample<T>::arrays(sample.weights)) {
      for (double& weight : *array) weight *= 3 / std::sqrt(static_cast<double>(c.d.hidden));
    }
    // Rows that all end at once would leave nothing to compare.
    sample.input.lengths.front() = static_cast<int>(c.time);
    sample.input.memory_lengths.front() = static_cast<int>(c.source);
    return sample;
  }

  void check(const DecoderCase& c, std::uint64_t seed) {
    SCOPED_TRACE(describe(c));
    const Sample<T> sample = sample_of(c, seed);
    const auto exact = oracle::forward(sample.shape, sample.weights, sample.input);
    const PlainOutputs plain = plain_outputs(sample.shape, sample.weights, sample.input, c.d.dtype);
    for (const Candidate& candidate : candidates(*this->device_)) {
      if (candidate.refuse(c.d, *this->device_)) continue;
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

  void check() {
    check(decoder(1, 60, 40), 51);
    check(decoder(3, 130, 12), 52);
    check(decoder(2, 530, 12), 53);
  }
};

using AccuracyTestFloat32 = AccuracyTest<float>;
using AccuracyTestBFloat16 = AccuracyTest<base::BFloat16>;
using AccuracyTestFloat16 = AccuracyTest<base::Float16>;

// Storing what steps hand on costs every implementation the same; what it does beside that must not
// cost as much again. In float32 a unit in the last place is left to the activations: ours err by
// up to three, the C library's by one.
TEST_P(AccuracyTestFloat32, ErrsAtMostTwiceAsMuchAsPlainCode) { check(); }
TEST_P(AccuracyTestBFloat16, ErrsAtMostTwiceAsMuchAsPlainCode) { check(); }
TEST_P(AccuracyTestFloat16, ErrsAtMostTwiceAsMuchAsPlainCode) { check(); }

INSTANTIATE_TEST_SUITE_P(Devices, AccuracyTestFloat32, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, AccuracyTestBFloat16, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, AccuracyTestFloat16, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::attention_decoder
