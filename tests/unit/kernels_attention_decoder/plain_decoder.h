#pragma once

#include <vector>

#include "base/dtype.h"
#include "oracle/attention_decoder.h"

namespace sluice::kernels::attention_decoder {

/// As oracle::DecoderOutput has them.
struct PlainOutputs {
  std::vector<double> a, alpha, hn, cn;
};

/// What anyone would write first for a decoder of LSTM layers with additive attention and no
/// dropout: weights, inputs and all that is stored (keys, contexts, h, a, alpha) rounded to
/// `storage`; products, cell states, queries, scores and softmax in float32, summed one after the
/// other, with the C library's activations.
PlainOutputs plain_outputs(const oracle::DecoderShape& shape, const oracle::DecoderWeights& weights,
                           const oracle::DecoderInput& input, base::DType storage);

}  // namespace sluice::kernels::attention_decoder
