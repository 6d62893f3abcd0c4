#include "oracle/attention_decoder.h"

#include <algorithm>
#include <cmath>

#include "oracle/matrix.h"
#include "oracle/size_check.h"

namespace sluice::oracle {
namespace {

using Vector = std::vector<double>;

void check_weights(const DecoderShape& s, const DecoderWeights& w) {
  check_size("the list of cells", w.cells.size(), s.layers);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    check_size("weight_ih", w.cells[layer].weight_ih.size(), s.gates() * s.input_of(layer));
    check_size("weight_hh", w.cells[layer].weight_hh.size(), s.gates() * s.hidden);
    check_size("bias_ih", w.cells[layer].bias_ih.size(), s.gates());
    check_size("bias_hh", w.cells[layer].bias_hh.size(), s.gates());
  }
  const AttentionWeights expected = zero_weights(s.attention_shape());
  check_size("attention.query", w.attention.query.size(), expected.query.size());
  check_size("attention.memory", w.attention.memory.size(), expected.memory.size());
  check_size("attention.score", w.attention.score.size(), expected.score.size());
  check_size("attention.general", w.attention.general.size(), expected.general.size());
  check_size("combine", w.combine.size(), s.output * (s.memory + s.hidden));
  check_size("combine_bias", w.combine_bias.size(), s.output);
}

void check_lengths(const char* name, const std::vector<int>& lengths, int64_t rows, int64_t most) {
  check_size_or_empty(name, lengths.size(), rows);
  for (const int length : lengths)
    if (length < 0 || length > most) fail(std::string("one of ") + name + " is out of range");
}

void check(const DecoderShape& s, const DecoderWeights& weights, const DecoderInput& in) {
  if (s.cell != Cell::kLstm && !in.c0.empty()) fail("only the LSTM has a c0");
  check_weights(s, weights);
  check_size("embedded", in.embedded.size(), s.time * s.rows * s.embedding);
  check_size("memory", in.memory.size(), s.source_time * s.rows * s.memory);
  check_lengths("memory_lengths", in.memory_lengths, s.rows, s.source_time);
  check_lengths("lengths", in.lengths, s.rows, s.time);
  check_size_or_empty("h0", in.h0.size(), s.layers * s.rows * s.hidden);
  check_size_or_empty("c0", in.c0.size(), s.layers * s.rows * s.hidden);
  check_size_or_empty("the list of dropout masks", in.dropout.size(), s.layers - 1);
  for (const Vector& mask : in.dropout)
    check_size("a dropout mask", mask.size(), s.time * s.rows * s.hidden);
}

void check(const DecoderShape& s, const DecoderOutputGradients& g) {
  if (s.cell != Cell::kLstm && !g.dcn.empty()) fail("only the LSTM has a cell state");
  check_size_or_empty("da", g.da.size(), s.time * s.rows * s.output);
  check_size_or_empty("dhn", g.dhn.size(), s.layers * s.rows * s.hidden);
  check_size_or_empty("dcn", g.dcn.size(), s.layers * s.rows * s.hidden);
}

Vector or_zeros(const Vector& values, int64_t size) {
  return values.empty() ? Vector(size, 0.0) : values;
}

std::vector<int> or_full(const std::vector<int>& lengths, int64_t rows, int64_t most) {
  return lengths.empty() ? std::vector<int>(rows, static_cast<int>(most)) : lengths;
}

/// What forward and backward share.
class Decoder {
 public:
  Decoder(const DecoderShape& shape, const DecoderWeights& weights, const DecoderInput& input)
      : s_(shape),
        attention_(shape.attention_shape()),
        lstm_(shape.cell == Cell::kLstm),
        resets_before_(shape.cell == Cell::kGruResetBefore),
        width_(shape.memory + shape.hidden),
        w_(weights),
        in_(input),
        lengths_(or_full(input.lengths, shape.rows, shape.time)),
        h0_(or_zeros(input.h0, shape.layers * shape.rows * shape.hidden)),
        c0_(or_zeros(input.c0, lstm_ ? shape.layers * shape.rows * shape.hidden : 0)) {}

  DecoderOutput forward() const;
  DecoderGradients backward(const DecoderOutput& out, const DecoderOutputGradients& g) const;

 private:
  /// What the backward pass finds at each step, zero where a row is inactive; the weights'
  /// gradients are sums over it.
  struct Tape {
    std::vector<Vector> d_input;   ///< [L] of [T, B, G*H], of W x + b_ih
    std::vector<Vector> d_hidden;  ///< [L] of [T, B, G*H], of R h + b_hh
    Vector d_projected;            ///< [T, B, K or M]
    Vector d_combined;             ///< [T, B, A], of W_c [ctx ; q] + b_c
    Vector d_keys;                 ///< additive: [S, B, K]
    Vector d_fed;                  ///< [B, A], of a_{t-1}, from the step after
    Vector d_query;                ///< [B, H], of the top layer's h at this step
  };

  bool active(int64_t t, int64_t b) const { return t < lengths_[b]; }
  std::vector<char> active_rows(int64_t t) const;
  template <typename Trace>
  auto record_at(Trace& trace, int64_t place) const;
  /// The states [B, H] of a layer before time t: the initial ones or those of t-1.
  const double* before(const Vector& initial, const Vector& states, int64_t layer, int64_t t) const;

  void feed(int64_t t, DecoderOutput& out) const;
  void step_cell(int64_t t, int64_t layer, DecoderOutput& out) const;
  /// With resets before the product: from_hidden [B, G*H] of n is that of r * h instead of h.
  void reset_candidates(int64_t layer, const double* h, const Vector& from_input,
                        Vector& from_hidden) const;
  /// Through that product: the gradients of r, and what flows into h directly [B, H].
  void reset_candidates_backward(int64_t t, int64_t layer, const DecoderOutput& out, Tape& tape,
                                 Vector& direct) const;
  void combine(int64_t t, DecoderOutput& out) const;
  void keep_final_states(DecoderOutput& out) const;

  /// Through W_c, the attention and its query, at step t: leaves d_query in the tape.
  void combine_backward(int64_t t, const DecoderOutput& out, const Vector& da, Tape& tape,
                        DecoderGradients& result) const;
  /// One layer's cell at step t. dh [B, H] is what comes from above; returns dx [B,
  /// input_of(layer)].
  Vector cell_backward_at(int64_t t, int64_t layer, const DecoderOutput& out, const Vector& dh,
                          Tape& tape, DecoderGradients& result) const;
  void weight_gradients(const DecoderOutput& out, const Tape& tape, DecoderGradients& result) const;

  const DecoderShape& s_;
  const AttentionShape attention_;
  const bool lstm_;
  const bool resets_before_;
  const int64_t width_;  ///< of [ctx ; q]
  const DecoderWeights& w_;
  const DecoderInput& in_;
  const std::vector<int> lengths_;
  const Vector h0_;
  const Vector c0_;
};

std::vector<char> Decoder::active_rows(int64_t t) const {
  std::vector<char> rows(s_.rows);
  for (int64_t b = 0; b < s_.rows; ++b) rows[b] = active(t, b);
  return rows;
}

template <typename Trace>
auto Decoder::record_at(Trace& trace, int64_t place) const {
  return CellRecordOf<std::remove_reference_t<decltype(trace.gates[0])>>{
      &trace.gates[place * s_.gates()], lstm_ ? nullptr : &trace.candidate[place * s_.hidden],
      lstm_ ? &trace.cells[place * s_.hidden] : nullptr};
}

const double* Decoder::before(const Vector& initial, const Vector& states, int64_t layer,
                              int64_t t) const {
  const int64_t size = s_.rows * s_.hidden;
  if (initial.empty()) return nullptr;
  return t == 0 ? &initial[layer * size] : &states[(t - 1) * size];
}

DecoderOutput Decoder::forward() const {
  const int64_t places = s_.time * s_.rows, states = places * s_.hidden;
  DecoderOutput out;
  out.a.resize(places * s_.output);
  out.alpha.resize(places * s_.source_time);
  out.projected.resize(places * attention_.projected());
  out.combined.resize(places * width_);
  out.attention_memory = attention_memory(attention_, w_.attention, in_.memory,
                                          or_full(in_.memory_lengths, s_.rows, s_.source_time));
  for (int64_t layer = 0; layer < s_.layers; ++layer) {
    out.inputs.emplace_back(places * s_.input_of(layer));
    out.traces.push_back({Vector(places * s_.gates()), Vector(lstm_ ? 0 : states),
                          Vector(lstm_ ? states : 0), Vector(), Vector(states)});
  }
  for (int64_t t = 0; t < s_.time; ++t) {
    feed(t, out);
    for (int64_t layer = 0; layer < s_.layers; ++layer) step_cell(t, layer, out);
    const int64_t first = t * s_.rows;
    attend(attention_, w_.attention, out.attention_memory, active_rows(t),
           &out.traces.back().h[first * s_.hidden], &out.projected[first * attention_.projected()],
           &out.alpha[first * s_.source_time], &out.combined[first * width_], width_);
    combine(t, out);
  }
  keep_final_states(out);
  return out;
}

/// [emb_t ; a_{t-1}] of the active rows.
void Decoder::feed(int64_t t, DecoderOutput& out) const {
  for (int64_t b = 0; b < s_.rows; ++b) {
    if (!active(t, b)) continue;
    const int64_t place = t * s_.rows + b;
    double* x = &out.inputs[0][place * s_.input_of(0)];
    std::copy_n(&in_.embedded[place * s_.embedding], s_.embedding, x);
    if (t > 0) std::copy_n(&out.a[(place - s_.rows) * s_.output], s_.output, x + s_.embedding);
  }
}

void Decoder::step_cell(int64_t t, int64_t layer, DecoderOutput& out) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, input = s_.input_of(layer);
  const Weights& w = w_.cells[layer];
  LayerTrace& trace = out.traces[layer];
  const double* h = before(h0_, trace.h, layer, t);
  const double* c = before(c0_, trace.cells, layer, t);
  Vector from_input(s_.rows * gates), from_hidden(s_.rows * gates);
  for (int64_t b = 0; b < s_.rows; ++b) {
    std::copy_n(w.bias_ih.data(), gates, &from_input[b * gates]);
    std::copy_n(w.bias_hh.data(), gates, &from_hidden[b * gates]);
  }
  multiply_add(s_.rows, gates, input, plain(&out.inputs[layer][t * s_.rows * input], input),
               transposed(w.weight_ih.data(), input), from_input.data());
  multiply_add(s_.rows, gates, hidden, plain(h, hidden), transposed(w.weight_hh.data(), hidden),
               from_hidden.data());
  if (resets_before_) reset_candidates(layer, h, from_input, from_hidden);
  for (int64_t b = 0; b < s_.rows; ++b) {
    if (!active(t, b)) continue;
    const int64_t place = t * s_.rows + b;
    double* new_h = &trace.h[place * hidden];
    cell_forward(s_.cell, hidden, &from_input[b * gates], &from_hidden[b * gates], h + b * hidden,
                 lstm_ ? c + b * hidden : nullptr, record_at(trace, place), new_h);
    if (layer + 1 == s_.layers) continue;
    double* above = &out.inputs[layer + 1][place * hidden];
    for (int64_t j = 0; j < hidden; ++j)
      above[j] = new_h[j] * (in_.dropout.empty() ? 1.0 : in_.dropout[layer][place * hidden + j]);
  }
}

void Decoder::reset_candidates(int64_t layer, const double* h, const Vector& from_input,
                               Vector& from_hidden) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden;
  const Weights& w = w_.cells[layer];
  for (int64_t b = 0; b < s_.rows; ++b) {
    Vector reset(hidden);
    for (int64_t j = 0; j < hidden; ++j) {
      const double sum = from_input[b * gates + j] + from_hidden[b * gates + j];
      reset[j] = h[b * hidden + j] / (1 + std::exp(-sum));
    }
    double* candidate = &from_hidden[b * gates + 2 * hidden];
    std::copy_n(&w.bias_hh[2 * hidden], hidden, candidate);
    multiply_add(1, hidden, hidden, plain(reset.data(), hidden),
                 transposed(&w.weight_hh[2 * hidden * hidden], hidden), candidate);
  }
}

void Decoder::reset_candidates_backward(int64_t t, int64_t layer, const DecoderOutput& out,
                                        Tape& tape, Vector& direct) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden;
  const LayerTrace& trace = out.traces[layer];
  const double* h = before(h0_, trace.h, layer, t);
  for (int64_t b = 0; b < s_.rows; ++b) {
    const int64_t place = (t * s_.rows + b) * gates;
    Vector d(hidden);
    multiply_add(1, hidden, hidden, plain(&tape.d_hidden[layer][place + 2 * hidden], hidden),
                 plain(&w_.cells[layer].weight_hh[2 * hidden * hidden], hidden), d.data());
    for (int64_t j = 0; j < hidden && active(t, b); ++j) {
      const double r = trace.gates[place + j];
      tape.d_input[layer][place + j] = tape.d_hidden[layer][place + j] =
          d[j] * h[b * hidden + j] * r * (1 - r);
      direct[b * hidden + j] += d[j] * r;
    }
  }
}

/// a_t of the active rows.
void Decoder::combine(int64_t t, DecoderOutput& out) const {
  const int64_t first = t * s_.rows;
  for (int64_t b = 0; b < s_.rows; ++b)
    std::copy_n(&out.traces.back().h[(first + b) * s_.hidden], s_.hidden,
                &out.combined[(first + b) * width_ + s_.memory]);
  Vector sums(s_.rows * s_.output);
  multiply_add(s_.rows, s_.output, width_, plain(&out.combined[first * width_], width_),
               transposed(w_.combine.data(), width_), sums.data());
  for (int64_t b = 0; b < s_.rows; ++b)
    for (int64_t j = 0; j < s_.output && active(t, b); ++j)
      out.a[(first + b) * s_.output + j] = std::tanh(sums[b * s_.output + j] + w_.combine_bias[j]);
}

void Decoder::keep_final_states(DecoderOutput& out) const {
  out.hn = h0_;
  out.cn = c0_;
  for (int64_t layer = 0; layer < s_.layers; ++layer)
    for (int64_t b = 0; b < s_.rows; ++b) {
      if (lengths_[b] == 0) continue;
      const int64_t last = ((lengths_[b] - 1) * s_.rows + b) * s_.hidden;
      const int64_t state = (layer * s_.rows + b) * s_.hidden;
      std::copy_n(&out.traces[layer].h[last], s_.hidden, &out.hn[state]);
      if (lstm_) std::copy_n(&out.traces[layer].cells[last], s_.hidden, &out.cn[state]);
    }
}

DecoderGradients Decoder::backward(const DecoderOutput& out,
                                   const DecoderOutputGradients& g) const {
  const int64_t places = s_.time * s_.rows;
  DecoderGradients result;
  result.dembedded.resize(places * s_.embedding);
  result.dmemory.resize(s_.source_time * s_.rows * s_.memory);
  result.dh0 = or_zeros(g.dhn, h0_.size());
  result.dc0 = or_zeros(g.dcn, c0_.size());
  result.weights = zero_weights(s_);
  Tape tape;
  tape.d_input.assign(s_.layers, Vector(places * s_.gates()));
  tape.d_hidden.assign(s_.layers, Vector(places * s_.gates()));
  tape.d_projected.resize(places * attention_.projected());
  tape.d_combined.resize(places * s_.output);
  tape.d_keys.resize(out.attention_memory.keys.size());
  tape.d_fed.resize(s_.rows * s_.output);
  tape.d_query.resize(s_.rows * s_.hidden);

  const Vector da = or_zeros(g.da, places * s_.output);
  for (int64_t t = s_.time - 1; t >= 0; --t) {
    combine_backward(t, out, da, tape, result);
    Vector dh = tape.d_query;
    for (int64_t layer = s_.layers - 1; layer > 0; --layer) {
      dh = cell_backward_at(t, layer, out, dh, tape, result);
      if (in_.dropout.empty()) continue;
      for (int64_t i = 0; i < s_.rows * s_.hidden; ++i)
        dh[i] *= in_.dropout[layer - 1][t * s_.rows * s_.hidden + i];
    }
    const Vector dx = cell_backward_at(t, 0, out, dh, tape, result);
    for (int64_t b = 0; b < s_.rows; ++b) {
      const double* row = &dx[b * s_.input_of(0)];
      std::copy_n(row, s_.embedding, &result.dembedded[(t * s_.rows + b) * s_.embedding]);
      std::copy_n(row + s_.embedding, s_.output, &tape.d_fed[b * s_.output]);
    }
  }
  weight_gradients(out, tape, result);
  return result;
}

void Decoder::combine_backward(int64_t t, const DecoderOutput& out, const Vector& da, Tape& tape,
                               DecoderGradients& result) const {
  const int64_t first = t * s_.rows;
  double* d_sums = &tape.d_combined[first * s_.output];
  for (int64_t b = 0; b < s_.rows; ++b)
    for (int64_t j = 0; j < s_.output && active(t, b); ++j) {
      const int64_t i = b * s_.output + j;
      const double a = out.a[first * s_.output + i];
      d_sums[i] = (da[first * s_.output + i] + tape.d_fed[i]) * (1 - a * a);
    }
  Vector d_both(s_.rows * width_);
  multiply_add(s_.rows, width_, s_.output, plain(d_sums, s_.output),
               plain(w_.combine.data(), width_), d_both.data());
  for (int64_t b = 0; b < s_.rows; ++b)
    std::copy_n(&d_both[b * width_ + s_.memory], s_.hidden, &tape.d_query[b * s_.hidden]);
  const int64_t projected = first * attention_.projected();
  attend_backward(attention_, w_.attention, out.attention_memory, active_rows(t),
                  &out.projected[projected], &out.alpha[first * s_.source_time], d_both.data(),
                  width_, &tape.d_projected[projected], tape.d_query.data(), result.dmemory.data(),
                  tape.d_keys.data(), result.weights.attention.score.data());
}

Vector Decoder::cell_backward_at(int64_t t, int64_t layer, const DecoderOutput& out,
                                 const Vector& dh, Tape& tape, DecoderGradients& result) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, input = s_.input_of(layer);
  const LayerTrace& trace = out.traces[layer];
  const double* h = before(h0_, trace.h, layer, t);
  const double* c = before(c0_, trace.cells, layer, t);
  double* carried_dh = &result.dh0[layer * s_.rows * hidden];
  double* carried_dc = lstm_ ? &result.dc0[layer * s_.rows * hidden] : nullptr;
  double* d_input = &tape.d_input[layer][t * s_.rows * gates];
  double* d_hidden = &tape.d_hidden[layer][t * s_.rows * gates];
  Vector direct(s_.rows * hidden), through(s_.rows * hidden), dx(s_.rows * input);
  for (int64_t b = 0; b < s_.rows; ++b) {
    if (!active(t, b)) continue;
    Vector total(hidden);
    for (int64_t j = 0; j < hidden; ++j) total[j] = dh[b * hidden + j] + carried_dh[b * hidden + j];
    cell_backward(s_.cell, hidden, h + b * hidden, lstm_ ? c + b * hidden : nullptr,
                  record_at(trace, t * s_.rows + b), total.data(),
                  lstm_ ? carried_dc + b * hidden : nullptr, d_input + b * gates,
                  d_hidden + b * gates, &direct[b * hidden]);
  }
  if (resets_before_) reset_candidates_backward(t, layer, out, tape, direct);
  multiply_add(s_.rows, hidden, resets_before_ ? 2 * hidden : gates, plain(d_hidden, gates),
               plain(w_.cells[layer].weight_hh.data(), hidden), through.data());
  multiply_add(s_.rows, input, gates, plain(d_input, gates),
               plain(w_.cells[layer].weight_ih.data(), input), dx.data());
  for (int64_t b = 0; b < s_.rows; ++b)
    for (int64_t i = b * hidden; i < (b + 1) * hidden && active(t, b); ++i)
      carried_dh[i] = through[i] + direct[i];
  return dx;
}

void Decoder::weight_gradients(const DecoderOutput& out, const Tape& tape,
                               DecoderGradients& result) const {
  const int64_t gates = s_.gates(), hidden = s_.hidden, places = s_.time * s_.rows;
  DecoderWeights& dw = result.weights;
  for (int64_t layer = 0; layer < s_.layers; ++layer) {
    const int64_t input = s_.input_of(layer);
    const Vector& d_input = tape.d_input[layer];
    const Vector& d_hidden = tape.d_hidden[layer];
    multiply_add(gates, input, places, transposed(d_input.data(), gates),
                 plain(out.inputs[layer].data(), input), dw.cells[layer].weight_ih.data());
    const int64_t of_h = resets_before_ ? 2 * hidden : gates;
    for (int64_t t = 0; t < s_.time; ++t) {
      const double* h = before(h0_, out.traces[layer].h, layer, t);
      const double* d = &d_hidden[t * s_.rows * gates];
      double* gradient = dw.cells[layer].weight_hh.data();
      multiply_add(of_h, hidden, s_.rows, transposed(d, gates), plain(h, hidden), gradient);
      if (!resets_before_) continue;
      Vector reset(h, h + s_.rows * hidden);
      for (int64_t i = 0; i < s_.rows * hidden; ++i)
        reset[i] *= out.traces[layer].gates[(t * s_.rows + i / hidden) * gates + i % hidden];
      multiply_add(hidden, hidden, s_.rows, transposed(d + of_h, gates),
                   plain(reset.data(), hidden), gradient + of_h * hidden);
    }
    add_column_sums(places, gates, d_input.data(), dw.cells[layer].bias_ih.data());
    add_column_sums(places, gates, d_hidden.data(), dw.cells[layer].bias_hh.data());
  }
  multiply_add(s_.output, width_, places, transposed(tape.d_combined.data(), s_.output),
               plain(out.combined.data(), width_), dw.combine.data());
  add_column_sums(places, s_.output, tape.d_combined.data(), dw.combine_bias.data());

  const double* q = out.traces.back().h.data();
  if (s_.attention == Attention::kMultiplicative) {
    multiply_add(hidden, s_.memory, places, transposed(q, hidden),
                 plain(tape.d_projected.data(), s_.memory), dw.attention.general.data());
    return;
  }
  const int64_t source_places = s_.source_time * s_.rows;
  const double* memory = out.attention_memory.memory.data();
  multiply_add(s_.key, hidden, places, transposed(tape.d_projected.data(), s_.key),
               plain(q, hidden), dw.attention.query.data());
  multiply_add(s_.key, s_.memory, source_places, transposed(tape.d_keys.data(), s_.key),
               plain(memory, s_.memory), dw.attention.memory.data());
  multiply_add(source_places, s_.memory, s_.key, plain(tape.d_keys.data(), s_.key),
               plain(w_.attention.memory.data(), s_.memory), result.dmemory.data());
}

}  // namespace

DecoderWeights zero_weights(const DecoderShape& s) {
  DecoderWeights weights;
  for (int64_t layer = 0; layer < s.layers; ++layer)
    weights.cells.push_back(zero_weights(s.cell, s.input_of(layer), s.hidden, 0));
  weights.attention = zero_weights(s.attention_shape());
  weights.combine.resize(s.output * (s.memory + s.hidden));
  weights.combine_bias.resize(s.output);
  return weights;
}

DecoderOutput forward(const DecoderShape& shape, const DecoderWeights& weights,
                      const DecoderInput& input) {
  check(shape, weights, input);
  return Decoder(shape, weights, input).forward();
}

DecoderGradients backward(const DecoderShape& shape, const DecoderWeights& weights,
                          const DecoderInput& input, const DecoderOutput& output,
                          const DecoderOutputGradients& gradients) {
  check(shape, weights, input);
  check(shape, gradients);
  return Decoder(shape, weights, input).backward(output, gradients);
}

}  // namespace sluice::oracle
