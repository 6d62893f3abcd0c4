#include "unit/kernels_attention_decoder/decoder_runner.h"

namespace sluice::kernels::attention_decoder {
namespace {

/// A decoder wide enough for several threads, and rows few or many enough for either way to share.
DecoderCase wide_case(CellType cell, AttentionType attention, std::int64_t rows, DType dtype) {
  DecoderCase c;
  c.d.cell = cell;
  c.d.attention = attention;
  c.d.layers = 2;
  c.d.embedding = 45;
  c.d.hidden = 75;
  c.d.memory = 50;
  c.d.key = attention == AttentionType::kAdditive ? 37 : 0;
  c.d.output = 61;
  c.d.target_time = c.time = 4;
  c.d.source_time = c.source = 9;
  c.d.rows = c.rows = rows;
  c.d.dtype = dtype;
  c.d.training = true;
  return c;
}

template <typename T>
class StepTest : public DecoderTest<T> {
 protected:
  struct State {
    Tensor h, c, a;
  };

  State zero_state(const Descriptor& d, std::int64_t rows) {
    const auto zeros = [&](const Shape& shape) {
      const Tensor tensor = this->poisoned(d.dtype, shape);
      this->context_.zero(tensor);
      return tensor;
    };
    State state{zeros({d.layers, rows, d.hidden}), {}, zeros({rows, d.output})};
    if (d.cell == CellType::kLstm) state.c = zeros({d.layers, rows, d.hidden});
    return state;
  }

  StepArgs step_args(const DecoderCase& c, const typename DecoderTest<T>::Planned& planned,
                     const Tensor& memory, const Tensor& lengths, std::int64_t inputs) {
    StepArgs args;
    args.source_time = c.source;
    args.inputs = inputs;
    args.keys = this->poisoned(c.d.dtype, {inputs, c.source, planned.plan->key_stride()});
    args.values = this->poisoned(c.d.dtype, {inputs, c.source, planned.plan->value_stride()});
    args.source_lengths = lengths;
    planned.plan->prepare_memory(this->context_,
                                 {c.source, inputs, memory, lengths, args.keys, args.values},
                                 planned.memory);
    return args;
  }

  /// Rows share inputs in a mixed order; steps in place equal forward on copied memory, to the bit
  /// where rows are alone.
  void check_steps(CellType cell, AttentionType attention, std::int64_t rows) {
    DecoderCase c = wide_case(cell, attention, rows, base::dtype_of<T>());
    SCOPED_TRACE(describe(c));
    c.initial_state = c.target_lengths = false;
    constexpr std::int64_t kInputs = 3;
    Sample<T> sample(c, 5);
    auto inputs = sample.input;  // of which only the first rows' memory is used
    std::vector<std::int32_t> input_of_row;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t input = (row * 2 + 1) % std::min(kInputs, rows);
      input_of_row.push_back(static_cast<std::int32_t>(input));
      sample.input.memory_lengths[static_cast<std::size_t>(row)] =
          inputs.memory_lengths[static_cast<std::size_t>(input)];
      for (std::int64_t s = 0; s < c.source; ++s) {
        std::copy_n(inputs.memory.begin() + (s * rows + input) * c.d.memory, c.d.memory,
                    sample.input.memory.begin() + (s * rows + row) * c.d.memory);
      }
    }
    auto planned = this->plan(c.d, this->rowwise(), sample.weights);
    const ForwardArgs forward = this->forward_args(c, sample.input);
    planned.plan->forward(this->context_, forward, planned.memory);

    Descriptor for_steps = c.d;
    for_steps.training = false;
    for_steps.target_time = 1;
    auto stepping = this->plan(for_steps, this->rowwise(), sample.weights);
    StepArgs step =
        step_args(c, stepping, this->put_numbers(inputs.memory, {c.source, rows, c.d.memory}),
                  this->put_lengths(inputs.memory_lengths), rows);
    const State state = zero_state(c.d, rows);
    const double tolerance = this->tolerance(c);
    step.rows = rows;
    step.input_of_row = this->put(input_of_row);
    step.h = step.h_next = state.h;
    step.c = step.c_next = state.c;
    step.a = step.a_next = state.a;
    step.alpha = this->poisoned(c.d.dtype, {rows, c.source});
    for (std::int64_t t = 0; t < c.time; ++t) {
      step.emb = forward.emb.select(0, t);
      stepping.plan->step(this->context_, step, stepping.memory);
      this->expect_same(this->numbers(step.a_next), this->numbers(forward.a.select(0, t)), "a",
                        tolerance);
      this->expect_same(this->numbers(step.alpha), this->numbers(forward.alpha.select(0, t)),
                        "alpha", tolerance);
    }
    this->expect_same(this->numbers(state.h), this->numbers(forward.hn), "h", tolerance);
    if (state.c) {
      this->expect_same(this->numbers(state.c), this->numbers(forward.cn), "c", tolerance);
    }
    this->release_memory();
  }

  /// Two runs, the second from the first's end, equal one run, forward and backward.
  void check_carried_state(CellType cell, AttentionType attention) {
    DecoderCase whole = wide_case(cell, attention, 3, base::dtype_of<T>());
    SCOPED_TRACE(describe(whole));
    whole.target_lengths = false;
    Sample<T> sample(whole, 6);
    const auto zeros = oracle::zero_weights(sample.shape);
    auto planned = this->plan(whole.d, "auto", sample.weights);
    const ForwardArgs all = this->forward_args(whole, sample.input);
    const BackwardArgs back =
        this->backward_args(whole, all, sample.input, sample.gradients, zeros);
    planned.plan->forward(this->context_, all, planned.memory);
    planned.plan->backward(this->context_, back, planned.memory);

    DecoderCase half = whole;
    half.time = whole.time / 2;
    ForwardArgs first = all, second = all;
    first.target_time = second.target_time = half.time;
    first.emb = all.emb.slice(0, 0, half.time);
    second.emb = all.emb.slice(0, half.time, whole.time);
    for (ForwardArgs* args : {&first, &second}) {
      args->a = this->poisoned(whole.d.dtype, {half.time, whole.rows, whole.d.output});
      args->alpha = {};
      args->hn = this->poisoned(whole.d.dtype, all.hn.shape());
      if (all.cn) args->cn = this->poisoned(whole.d.dtype, all.hn.shape());
    }
    second.h0 = first.hn;
    second.c0 = first.cn;
    second.a0 = first.a.select(0, half.time - 1);
    auto early = this->plan(whole.d, "auto", sample.weights);
    auto late = this->plan(whole.d, "auto", sample.weights);
    early.plan->forward(this->context_, first, early.memory);
    late.plan->forward(this->context_, second, late.memory);
    const double tolerance = this->tolerance(whole);
    this->expect_same(this->numbers(second.hn), this->numbers(all.hn), "hn", tolerance);
    this->expect_same(
        this->numbers(second.a),
        this->numbers(all.a.slice(0, half.time, whole.time).reshape(second.a.shape())), "a",
        tolerance);

    const BackwardArgs late_back = half_backward(half, back, second, half.time, sample, zeros);
    late.plan->backward(this->context_, late_back, late.memory);
    BackwardArgs early_back = half_backward(half, back, first, 0, sample, zeros);
    early_back.dhn = late_back.dh0;
    early_back.dcn = late_back.dc0;
    std::vector<double> da = this->numbers(early_back.da), da0 = this->numbers(late_back.da0);
    for (std::size_t i = 0; i < da0.size(); ++i) da[da.size() - da0.size() + i] += da0[i];
    early_back.da = this->put_numbers(da, early_back.da.shape());
    early.plan->backward(this->context_, early_back, early.memory);
    this->expect_near(this->numbers(early_back.dh0), this->numbers(back.dh0), "dh0", tolerance);
    this->expect_near(this->numbers(early_back.da0), this->numbers(back.da0), "da0", tolerance);
    const auto ones = this->tensors(early_back.gradients),
               twos = this->tensors(late_back.gradients);
    const auto sums = this->tensors(back.gradients);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      std::vector<double> sum = this->numbers(ones[i]);
      const std::vector<double> other = this->numbers(twos[i]);
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += other[k];
      this->expect_near(sum, this->numbers(sums[i]), "gradient " + std::to_string(i), tolerance);
    }
    this->release_memory();
  }

  BackwardArgs half_backward(const DecoderCase& half, const BackwardArgs& whole,
                             const ForwardArgs& forward, std::int64_t begin,
                             const Sample<T>& sample, const oracle::DecoderWeights& zeros) {
    auto gradients = sample.gradients;
    const std::vector<double> da = this->numbers(whole.da);
    const std::int64_t width = half.rows * half.d.output;
    gradients.da.assign(da.begin() + begin * width, da.begin() + (begin + half.time) * width);
    return this->backward_args(half, forward, sample.input, gradients, zeros);
  }
};

using StepTestFloat64 = StepTest<double>;
using StepTestFloat32 = StepTest<float>;

constexpr AttentionType kAttentions[] = {AttentionType::kAdditive, AttentionType::kMultiplicative};

TEST_P(StepTestFloat32, StepsEqualForward) {
  for (const CellType cell : kGatedCells) {
    for (const AttentionType attention : kAttentions) {
      for (const std::int64_t rows : {1, 5, 33}) this->check_steps(cell, attention, rows);
    }
  }
}

TEST_P(StepTestFloat64, StepsEqualForward) {
  for (const CellType cell : kGatedCells) check_steps(cell, AttentionType::kAdditive, 7);
}

TEST_P(StepTestFloat64, CarriedStateContinuesARun) {
  for (const CellType cell : kGatedCells) {
    for (const AttentionType attention : kAttentions) check_carried_state(cell, attention);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StepTestFloat64, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, StepTestFloat32, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::attention_decoder
