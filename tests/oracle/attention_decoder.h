#pragma once

#include <cstdint>
#include <vector>

#include "oracle/attention.h"
#include "oracle/cell.h"
#include "oracle/recurrent.h"

namespace sluice::oracle {

/// The decoder with attention and input feeding (Luong et al. 2015, section 3.3), teacher forced.
/// At step t, with a_{-1} = 0:
///   x = [emb_t ; a_{t-1}] -> cell of layer 0; the cell of layer l > 0 reads h_t of layer l-1
///   (times the dropout mask) q = h_t of the top layer; alpha = softmax over the row's memory of
///   score(q, m); ctx = sum of alpha m a_t = tanh(W_c [ctx ; q] + b_c)
/// T target time, S source time, B rows, E embedding, M memory, H hidden, L layers, A attentional
/// output, K additive key. Everything is row-major and contiguous.
struct DecoderShape {
  Cell cell = Cell::kLstm;
  Attention attention = Attention::kAdditive;
  int64_t time = 1;
  int64_t source_time = 1;
  int64_t rows = 1;
  int64_t embedding = 1;
  int64_t memory = 1;
  int64_t hidden = 1;
  int64_t layers = 1;
  int64_t output = 1;
  int64_t key = 1;  ///< additive attention only

  int64_t gates() const { return gate_count(cell) * hidden; }
  /// Width of the input of layer l: E + A, then H.
  int64_t input_of(int64_t layer) const { return layer == 0 ? embedding + output : hidden; }
  AttentionShape attention_shape() const {
    return {attention, source_time, rows, memory, hidden, key};
  }
};

/// The same struct holds the gradients.
struct DecoderWeights {
  std::vector<Weights> cells;  ///< [L], weight_hr empty
  AttentionWeights attention;
  std::vector<double> combine;       ///< W_c [A, M+H]
  std::vector<double> combine_bias;  ///< b_c [A]
};

DecoderWeights zero_weights(const DecoderShape& shape);

struct DecoderInput {
  std::vector<double> embedded;     ///< [T, B, E]; past a row's target length never read
  std::vector<double> memory;       ///< [S, B, M]; past a row's memory length never read
  std::vector<int> memory_lengths;  ///< [B], each 0..S; empty: all S
  std::vector<int> lengths;         ///< [B] target lengths, each 0..T; empty: all T
  std::vector<double> h0;           ///< [L, B, H]; empty: zero
  std::vector<double> c0;           ///< LSTM: [L, B, H]; empty: zero
  std::vector<std::vector<double>>
      dropout;  ///< [L-1] of [T, B, H], multipliers 0 or 1/(1-p); empty: none
};

/// A row with t >= its target length is inactive: everything of it is 0 there and its states keep
/// their last value.
struct DecoderOutput {
  std::vector<double> a;      ///< [T, B, A]
  std::vector<double> alpha;  ///< [T, B, S]; of a row without memory 0
  std::vector<double> hn;     ///< [L, B, H]
  std::vector<double> cn;     ///< LSTM: [L, B, H], else empty
  // Kept for the backward pass.
  std::vector<std::vector<double>> inputs;  ///< [L] of [T, B, input_of(l)], after dropout
  std::vector<LayerTrace> traces;           ///< [L]
  std::vector<double> projected;            ///< [T, B, K or M], the query as attention scores it
  std::vector<double> combined;             ///< [T, B, M+H], [ctx ; q]
  AttentionMemory attention_memory;
};

/// Gradients of the loss with respect to the outputs. Each may be empty: zero.
struct DecoderOutputGradients {
  std::vector<double> da;   ///< [T, B, A]; what it holds past a row's target length is ignored
  std::vector<double> dhn;  ///< [L, B, H]
  std::vector<double> dcn;  ///< LSTM: [L, B, H]
};

struct DecoderGradients {
  std::vector<double> dembedded;  ///< [T, B, E], zero past a row's target length
  std::vector<double> dmemory;    ///< [S, B, M], zero past a row's memory length
  std::vector<double> dh0;        ///< [L, B, H]
  std::vector<double> dc0;        ///< LSTM: [L, B, H], else empty
  DecoderWeights weights;
};

/// Runs the decoder. Throws std::invalid_argument, naming it, when an array has the wrong size.
DecoderOutput forward(const DecoderShape& shape, const DecoderWeights& weights,
                      const DecoderInput& input);

/// Back-propagation through time, from the forward's own output. Throws as forward does.
DecoderGradients backward(const DecoderShape& shape, const DecoderWeights& weights,
                          const DecoderInput& input, const DecoderOutput& output,
                          const DecoderOutputGradients& gradients);

}  // namespace sluice::oracle
