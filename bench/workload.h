#pragma once

#include <array>
#include <memory>
#include <vector>

#include "bench/shape_file.h"
#include "runtime/buffer.h"

namespace sluice::bench {

/// Numbers of a shape on the host, in float64 but rounded to what the dtype can hold, so that an
/// oracle sees exactly what an implementation sees. Uniform in [-1, 1] (x, dy, dhn, dcn, h0, c0),
/// weights uniform in +-1/sqrt(hidden).
struct HostData {
  /// No numbers at all.
  HostData() = default;
  explicit HostData(const BenchShape& shape);

  std::vector<double> x, h0, c0, dy, dhn, dcn;
  std::vector<std::int32_t> lengths;  ///< empty: full
  std::vector<std::int32_t> resets;   ///< empty: none
  struct LayerWeights {
    std::vector<double> weight_ih, weight_hh, bias_ih, bias_hh, weight_hr;
    std::vector<double> weight_peephole = {}, gain_ih = {}, gain_hh = {}, gain_c = {}, shift_c = {};
  };
  /// All arrays of a LayerWeights.
  static constexpr std::array kArrays{&LayerWeights::weight_ih, &LayerWeights::weight_hh,
                                      &LayerWeights::bias_ih,   &LayerWeights::bias_hh,
                                      &LayerWeights::weight_hr, &LayerWeights::weight_peephole,
                                      &LayerWeights::gain_ih,   &LayerWeights::gain_hh,
                                      &LayerWeights::gain_c,    &LayerWeights::shift_c};
  std::vector<LayerWeights> weights;  ///< index layer * directions + direction
};

/// What an implementation computed, on the host in float64.
struct HostResults {
  std::vector<double> y, hn, cn;
  std::vector<double> dx, dh0, dc0;               ///< empty after a forward pass
  std::vector<HostData::LayerWeights> gradients;  ///< the same
};

/// Device memory that the implementations of one shape share: weights, and enough copies of inputs
/// and outputs that successive runs find none of them in a cache (twice the largest cache, unless
/// that takes more than 1 GiB or `most_copies`).
class SharedTensors {
 public:
  SharedTensors(const runtime::Context& context, const BenchShape& shape, const HostData& data,
                Pass pass, std::size_t most_copies = 64);
  ~SharedTensors();
  /// Bytes of the device for weights, gradients and one copy of inputs and outputs.
  static std::size_t bytes(const runtime::Context& context, const BenchShape& shape, Pass pass);

  /// One copy of inputs and outputs.
  struct Set {
    runtime::Tensor x, h0, c0, lengths, resets, y, hn, cn;
    runtime::Tensor dy, dhn, dcn, dx, dh0, dc0;
  };
  const Set& next();
  std::size_t count() const;
  const std::vector<kernels::recurrent::LayerWeights>& weights() const;
  const std::vector<kernels::recurrent::LayerWeights>& gradients() const;
  HostResults download(const runtime::Context& context, const Set& set) const;
  void poison_gradients(const runtime::Context& context) const;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

}  // namespace sluice::bench
