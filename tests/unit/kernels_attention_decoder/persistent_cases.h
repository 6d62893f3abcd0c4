#pragma once

#include <string>
#include <string_view>

#include "unit/kernels_attention_decoder/decoder_runner.h"

namespace sluice::kernels::attention_decoder {

/// What a run writes.
inline std::vector<Tensor> outputs_of(const ForwardArgs& args) {
  return {args.a, args.alpha, args.hn, args.cn};
}
inline std::vector<Tensor> outputs_of(const BackwardArgs& args) {
  return {args.d_emb, args.d_memory, args.dh0, args.dc0, args.da0};
}

/// Decoders that a GPU may run in one launch; they are larger than the random ones of
/// oracle_test.cpp.
template <typename T>
class PersistentCases : public DecoderTest<T> {
 protected:
  static constexpr std::string_view kName = "persistent";

  /// Widths of hidden, key, output, memory and embedding.
  static DecoderCase with(std::int64_t hidden, std::int64_t key, std::int64_t output,
                          std::int64_t memory, std::int64_t embedding) {
    DecoderCase c;
    c.d = {CellType::kLstm, AttentionType::kAdditive, 2, embedding, hidden, memory, key, output};
    c.d.dtype = base::dtype_of<T>();
    c.d.training = true;
    return c;
  }
  static DecoderCase of(DecoderCase c, std::int64_t time, std::int64_t source, std::int64_t rows,
                        double dropout) {
    c.d.target_time = c.time = time;
    c.d.source_time = c.source = source;
    c.d.rows = c.rows = rows;
    c.d.dropout = dropout;
    return c;
  }

  /// Sums of so many terms would have gates that are all open or shut.
  static Sample<T> sample_of(const DecoderCase& c, std::uint64_t seed) {
    Sample<T> sample(c, seed);
    for (auto* array : Sample<T>::arrays(sample.weights)) {
      for (double& weight : *array) weight *= 0x1p-3;
    }
    return sample;
  }

  /// The device's launch, or null.
  const Candidate* launch() const {
    for (const Candidate& candidate : candidates(*this->device_)) {
      if (candidate.name == kName) return &candidate;
    }
    return nullptr;
  }
  std::string refusal(const Descriptor& d) const {
    return launch()->refuse(d, *this->device_).value_or("");
  }
  /// Whether the device has it; it must not refuse what it is made for.
  bool has(const DecoderCase& c) const {
    if (launch() == nullptr) return false;
    const std::string reason = refusal(c.d);
    EXPECT_TRUE(reason.empty() || reason.find("compute capability") != std::string::npos) << reason;
    return reason.empty();
  }

  /// Of each output.
  using Numbers = std::vector<std::vector<double>>;

  ForwardArgs args_of(const DecoderCase& c, const oracle::DecoderInput& input) {
    ForwardArgs args = this->forward_args(c, input);
    args.dropout = this->put_key(runtime::DropoutKey{9, 3, 5});
    return args;
  }
  /// Args: what has outputs_of().
  template <typename Args>
  Numbers outputs(const Args& args) {
    Numbers all;
    for (const Tensor& tensor : outputs_of(args)) all.push_back(this->numbers(tensor));
    return all;
  }
  template <typename Args>
  void poison_outputs(const Args& args) {
    for (const Tensor& tensor : outputs_of(args)) {
      const auto count = static_cast<std::size_t>(tensor.element_count());
      testing::poison(this->context_, tensor.data(), count * base::size_of(tensor.dtype()));
    }
  }
  /// Runs it on outputs that hold nothing of earlier runs.
  Numbers run(Plan& plan, const Memory& memory, const ForwardArgs& args) {
    poison_outputs(args);
    plan.forward(this->context_, args, memory);
    return outputs(args);
  }
  Numbers run(const DecoderCase& c, const Sample<T>& sample) {
    const auto planned = this->plan(c.d, std::string(kName), sample.weights);
    return run(*planned.plan, planned.memory, args_of(c, sample.input));
  }
  static Numbers expected(const Sample<T>& sample, const oracle::DecoderInput& input) {
    const auto want = oracle::forward(sample.shape, sample.weights, input);
    return {want.a, want.alpha, want.hn, want.cn};
  }

  static void expect_same_bits(const Numbers& got, const Numbers& want) {
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(testing::same_bits(got[i], want[i])) << "output " << i;
    }
  }
  void expect_all_near(const Numbers& got, const Numbers& want, double relative) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      this->expect_near(got[i], want[i], "output " + std::to_string(i), relative);
    }
  }

  /// As oracle_test.cpp reckons it.
  static double tolerance(const DecoderCase& c) {
    constexpr double kRounding = std::is_same_v<T, base::BFloat16> ? 0x1p-9 : 0x1p-11;
    return 4 * kRounding * std::sqrt(static_cast<double>(2 * 4 * c.time * (c.d.layers + 1)));
  }

  void TestBody() override {}
};

/// Tests of a launch whose checks are PersistentCases of their own, in one precision or in both.
class PersistentLaunchTest : public testing::OnDevice {};

}  // namespace sluice::kernels::attention_decoder
