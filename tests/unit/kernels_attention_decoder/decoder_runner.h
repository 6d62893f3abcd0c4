#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "unit/kernels_attention_decoder/decoder_sample.h"
#include "unit/support/declined_cases.h"

namespace sluice::kernels::attention_decoder {

using testing::Shape;

inline constexpr std::array kGatedCells{CellType::kLstm, CellType::kGru, CellType::kGruResetBefore};

/// A plan with poisoned memory of its own and the device's copy of some weights.
template <typename T>
class DecoderTest : public testing::OnDevice {
 protected:
  struct Planned {
    std::unique_ptr<Plan> plan;
    Memory memory;
  };

  void TearDown() override {
    if (const auto reason = cases_.all_declined()) GTEST_SKIP() << *reason;
  }
  /// Whether the implementation takes the case.
  bool takes(const Candidate& candidate, const Descriptor& d) {
    return cases_.take(candidate.name, candidate.refuse(d, *this->device_));
  }

  void* bytes(std::size_t count) {
    return this->poisoned(DType::kUInt8, Shape{static_cast<std::int64_t>(count)}).data();
  }

  /// Of cell states, weights and their gradients.
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

  template <typename V = T>
  Tensor put_numbers(const std::vector<double>& values, const Shape& shape) {
    if (values.empty()) return {};
    std::vector<V> narrow;
    for (const double v : values) narrow.push_back(static_cast<V>(v));
    return this->put(narrow, shape);
  }
  Tensor put_wide(const std::vector<double>& values, const Shape& shape) {
    return put_numbers<Wide>(values, shape);
  }
  Tensor put_lengths(const std::vector<int>& values) {
    if (values.empty()) return {};
    return this->put(std::vector<std::int32_t>(values.begin(), values.end()));
  }
  std::vector<double> numbers(const Tensor& tensor) {
    return base::dispatch_float(tensor.dtype(), [&](auto tag) {
      return testing::widened(this->template get<typename decltype(tag)::type>(tensor));
    });
  }

  /// On the host one implementation sums every row by itself, so that its bits depend on no other
  /// row. On a GPU products may be blocked by the number of rows.
  bool rows_are_alone() const { return this->device_->runs_host_kernels(); }
  std::string rowwise() const { return rows_are_alone() ? "portable" : "auto"; }
  /// The same bits where rows are alone, else within `relative`.
  void expect_same(const std::vector<double>& got, const std::vector<double>& want,
                   const std::string& name, double relative) {
    if (!rows_are_alone()) return expect_near(got, want, name, relative);
    ASSERT_EQ(got.size(), want.size()) << name;
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << name << ' ' << i;
  }

  Weights put_weights(const Descriptor& d, const oracle::DecoderWeights& w) {
    Weights out;
    const std::int64_t sums = d.gates() * d.hidden;
    for (std::size_t l = 0; l < w.cells.size(); ++l) {
      const oracle::Weights& cell = w.cells[l];
      recurrent::LayerWeights layer;
      layer.weight_ih = put_wide(cell.weight_ih, {sums, d.input_of(static_cast<std::int64_t>(l))});
      layer.weight_hh = put_wide(cell.weight_hh, {sums, d.hidden});
      layer.bias_ih = put_wide(cell.bias_ih, {sums});
      layer.bias_hh = put_wide(cell.bias_hh, {sums});
      out.cells.push_back(layer);
    }
    out.query_weight = put_wide(w.attention.query, {d.key, d.hidden});
    out.memory_weight = put_wide(w.attention.memory, {d.key, d.memory});
    out.score_vector = put_wide(w.attention.score, {d.key});
    out.bilinear_weight = put_wide(w.attention.general, {d.hidden, d.memory});
    out.output_weight = put_wide(w.combine, {d.output, d.memory + d.hidden});
    out.output_bias = put_wide(w.combine_bias, {d.output});
    return out;
  }

  /// The same tensors in the order of Sample::arrays.
  static std::vector<Tensor> tensors(const Weights& w) {
    std::vector<Tensor> all;
    for (const recurrent::LayerWeights& cell : w.cells) {
      for (const Tensor& t : {cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh}) {
        all.push_back(t);
      }
    }
    for (const Tensor& t : {w.query_weight, w.memory_weight, w.score_vector, w.bilinear_weight,
                            w.output_weight, w.output_bias}) {
      if (t) all.push_back(t);
    }
    return all;
  }

  Planned plan(const Descriptor& d, const std::string& name, const oracle::DecoderWeights& w) {
    Planned planned{make_plan(this->context_, d, name).plan, {}};
    planned.memory.packed = bytes(planned.plan->packed_bytes());
    planned.memory.workspace = bytes(planned.plan->workspace_bytes());
    planned.memory.reserve = bytes(planned.plan->reserve_bytes());
    planned.plan->pack(this->context_, put_weights(d, w), planned.memory);
    return planned;
  }

  ForwardArgs forward_args(const DecoderCase& c, const oracle::DecoderInput& input) {
    const Descriptor& d = c.d;
    const Shape state{d.layers, c.rows, d.hidden};
    ForwardArgs args;
    args.target_time = c.time;
    args.source_time = c.source;
    args.rows = c.rows;
    args.emb = put_numbers(spoiled(c, input.embedded, input.lengths, c.time, d.embedding),
                           {c.time, c.rows, d.embedding});
    args.memory = put_numbers(spoiled(c, input.memory, input.memory_lengths, c.source, d.memory),
                              {c.source, c.rows, d.memory});
    args.source_lengths = put_lengths(input.memory_lengths);
    args.target_lengths = put_lengths(input.lengths);
    args.h0 = put_numbers(input.h0, state);
    args.c0 = put_wide(input.c0, state);
    args.a = this->poisoned(d.dtype, {c.time, c.rows, d.output});
    args.alpha = this->poisoned(d.dtype, {c.time, c.rows, c.source});
    args.hn = this->poisoned(d.dtype, state);
    if (d.cell == CellType::kLstm) args.cn = this->poisoned(base::dtype_of<Wide>(), state);
    return args;
  }

  /// `start`: what the gradients hold beforehand.
  BackwardArgs backward_args(const DecoderCase& c, const ForwardArgs& forward,
                             const oracle::DecoderInput& input,
                             const oracle::DecoderOutputGradients& gradients,
                             const oracle::DecoderWeights& start) {
    const Descriptor& d = c.d;
    const Shape state{d.layers, c.rows, d.hidden};
    BackwardArgs args;
    args.forward = forward;
    args.da = put_numbers(spoiled(c, gradients.da, input.lengths, c.time, d.output),
                          {c.time, c.rows, d.output});
    args.dhn = put_numbers(gradients.dhn, state);
    args.dcn = put_wide(gradients.dcn, state);
    args.d_emb = this->poisoned(d.dtype, {c.time, c.rows, d.embedding});
    args.d_memory = this->poisoned(d.dtype, {c.source, c.rows, d.memory});
    args.dh0 = this->poisoned(d.dtype, state);
    if (d.cell == CellType::kLstm) args.dc0 = this->poisoned(base::dtype_of<Wide>(), state);
    args.da0 = this->poisoned(d.dtype, {c.rows, d.output});
    args.gradients = put_weights(d, start);
    return args;
  }

  /// [time, rows, width] with NaN past each row's length, where nothing may be read.
  static std::vector<double> spoiled(const DecoderCase& c, std::vector<double> values,
                                     const std::vector<int>& lengths, std::int64_t time,
                                     std::int64_t width) {
    if (lengths.empty()) return values;
    for (std::int64_t t = 0; t < time; ++t) {
      for (std::int64_t row = 0; row < c.rows; ++row) {
        if (t < lengths[static_cast<std::size_t>(row)]) continue;
        std::fill_n(values.begin() + (t * c.rows + row) * width, width,
                    std::numeric_limits<double>::quiet_NaN());
      }
    }
    return values;
  }

  /// Every number is a chain of sums of at most `terms` products of numbers around 1, each off by
  /// at most terms * epsilon of its largest partial sum. Steps and layers feed such errors on; with
  /// weights below 0.5 and squashing cells they add up rather than multiply, for gradients twice
  /// (forward and backward). 8 leaves room for the tanh and exp of a leaf (some units each).
  static double tolerance(const DecoderCase& c) {
    const Descriptor& d = c.d;
    const std::int64_t terms =
        std::max({d.embedding + d.output + d.hidden, d.memory + d.hidden, c.time * c.rows});
    const double chain = static_cast<double>(terms + c.time * d.layers * 8);
    return 8 * chain * static_cast<double>(std::numeric_limits<T>::epsilon());
  }

  /// In the mean of squares; from zero, if `want` is empty.
  static double distance(const std::vector<double>& got, const std::vector<double>& want) {
    double sum = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = got[i] - (want.empty() ? 0 : want[i]);
      sum += error * error;
    }
    return std::sqrt(sum / static_cast<double>(got.size()));
  }

  /// Compares with respect to the largest expected magnitude, at least 1e-3.
  static void expect_near(const std::vector<double>& got, const std::vector<double>& want,
                          const std::string& name, double relative) {
    ASSERT_EQ(got.size(), want.size()) << name;
    double scale = 1e-3;
    for (const double v : want) scale = std::max(scale, std::abs(v));
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_TRUE(std::abs(got[i] - want[i]) <= relative * scale)
          << name << "[" << i << "] is " << got[i] << ", not " << want[i] << " (scale " << scale
          << ", relative tolerance " << relative << ")";
    }
  }

 private:
  testing::DeclinedCases cases_;
};

}  // namespace sluice::kernels::attention_decoder
