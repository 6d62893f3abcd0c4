#include "oracle/cell.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "oracle/layer_norm.h"

namespace sluice::oracle {
namespace {

/// The function of a gate, and its slope where it has that value.
struct Gate {
  bool hard;

  double operator()(double a) const {
    return hard ? std::clamp(0.2 * a + 0.5, 0.0, 1.0) : 1.0 / (1.0 + std::exp(-a));
  }
  double slope(double value) const {
    if (!hard) return value * (1 - value);
    return value > 0 && value < 1 ? 0.2 : 0.0;
  }
};

/// What tanh takes of c on its way to h.
std::vector<double> squashed_input(int64_t hidden, const double* c, const CellExtras& extras) {
  std::vector<double> result(c, c + hidden);
  if (extras.gain_c == nullptr) return result;
  normalize(hidden, c, result.data());
  for (int64_t j = 0; j < hidden; ++j) result[j] = extras.gain_c[j] * result[j] + extras.shift_c[j];
  return result;
}

void lstm_forward(int64_t hidden, const double* from_input, const double* from_hidden,
                  const double* previous_c, const CellExtras& extras, const CellRecord& record,
                  double* h) {
  const Gate sigmoid{extras.hard_sigmoid};
  for (int64_t j = 0; j < hidden; ++j) {
    const auto through = [&](int64_t k, double c) {
      return extras.peephole == nullptr ? 0.0 : extras.peephole[k * hidden + j] * c;
    };
    const auto sum = [&](int gate) {
      return from_input[gate * hidden + j] + from_hidden[gate * hidden + j];
    };
    const double i = sigmoid(sum(0) + through(0, previous_c[j]));
    const double f = sigmoid(sum(1) + through(1, previous_c[j]));
    const double g = std::tanh(sum(2));
    record.c[j] = f * previous_c[j] + i * g;
    record.gates[j] = i;
    record.gates[hidden + j] = f;
    record.gates[2 * hidden + j] = g;
    record.gates[3 * hidden + j] = sigmoid(sum(3) + through(2, record.c[j]));
  }
  const std::vector<double> squashed = squashed_input(hidden, record.c, extras);
  for (int64_t j = 0; j < hidden; ++j) h[j] = record.gates[3 * hidden + j] * std::tanh(squashed[j]);
}

void gru_forward(int64_t hidden, const double* from_input, const double* from_hidden,
                 const double* previous_h, const Gate& sigmoid, const CellRecord& record,
                 double* h) {
  for (int64_t j = 0; j < hidden; ++j) {
    const double r = sigmoid(from_input[j] + from_hidden[j]);
    const double z = sigmoid(from_input[hidden + j] + from_hidden[hidden + j]);
    const double candidate = from_hidden[2 * hidden + j];
    const double n = std::tanh(from_input[2 * hidden + j] + r * candidate);
    record.gates[j] = r;
    record.gates[hidden + j] = z;
    record.gates[2 * hidden + j] = n;
    record.candidate[j] = candidate;
    h[j] = (1 - z) * n + z * previous_h[j];
  }
}

void gru_reset_before_forward(int64_t hidden, const double* from_input, const double* from_hidden,
                              const double* previous_h, const Gate& sigmoid,
                              const CellRecord& record, double* h) {
  for (int64_t j = 0; j < hidden; ++j) {
    const auto sum = [&](int gate) {
      return from_input[gate * hidden + j] + from_hidden[gate * hidden + j];
    };
    const double r = sigmoid(sum(0)), z = sigmoid(sum(1)), n = std::tanh(sum(2));
    record.gates[j] = r;
    record.gates[hidden + j] = z;
    record.gates[2 * hidden + j] = n;
    h[j] = (1 - z) * n + z * previous_h[j];
  }
}

void rnn_forward(Cell cell, int64_t hidden, const double* from_input, const double* from_hidden,
                 const CellRecord& record, double* h) {
  for (int64_t j = 0; j < hidden; ++j) {
    const double sum = from_input[j] + from_hidden[j];
    record.candidate[j] = sum;
    h[j] = record.gates[j] = cell == Cell::kRnnTanh ? std::tanh(sum) : std::max(sum, 0.0);
  }
}

void lstm_backward(int64_t hidden, const double* previous_c, const CellExtras& extras,
                   const ConstCellRecord& record, const double* dh, double* dc, double* d_gates,
                   double* d_normalized) {
  const std::vector<double> input = squashed_input(hidden, record.c, extras);
  std::vector<double> from_h(hidden);  // what h gives to c
  const Gate gate{extras.hard_sigmoid};
  for (int64_t j = 0; j < hidden; ++j) {
    const double squashed = std::tanh(input[j]);
    from_h[j] = dh[j] * record.gates[3 * hidden + j] * (1 - squashed * squashed);
  }
  if (extras.gain_c != nullptr) {
    std::copy(from_h.begin(), from_h.end(), d_normalized);
    for (int64_t j = 0; j < hidden; ++j) from_h[j] *= extras.gain_c[j];
    normalize_backward(hidden, record.c, from_h.data(), from_h.data());
  }
  for (int64_t j = 0; j < hidden; ++j) {
    const auto weight = [&](int64_t k) {
      return extras.peephole == nullptr ? 0.0 : extras.peephole[k * hidden + j];
    };
    const double i = record.gates[j];
    const double f = record.gates[hidden + j];
    const double g = record.gates[2 * hidden + j];
    const double o = record.gates[3 * hidden + j];
    const double d_output_gate = dh[j] * std::tanh(input[j]) * gate.slope(o);
    const double dc_total = dc[j] + from_h[j] + d_output_gate * weight(2);
    d_gates[j] = dc_total * g * gate.slope(i);
    d_gates[hidden + j] = dc_total * previous_c[j] * gate.slope(f);
    d_gates[2 * hidden + j] = dc_total * i * (1 - g * g);
    d_gates[3 * hidden + j] = d_output_gate;
    dc[j] = dc_total * f + d_gates[j] * weight(0) + d_gates[hidden + j] * weight(1);
  }
}

void gru_backward(int64_t hidden, const double* previous_h, const Gate& gate,
                  const ConstCellRecord& record, const double* dh, double* d_input,
                  double* d_hidden, double* previous_dh) {
  for (int64_t j = 0; j < hidden; ++j) {
    const double r = record.gates[j];
    const double z = record.gates[hidden + j];
    const double n = record.gates[2 * hidden + j];
    const double dn = dh[j] * (1 - z) * (1 - n * n);
    const double dr = dn * record.candidate[j] * gate.slope(r);
    const double dz = dh[j] * (previous_h[j] - n) * gate.slope(z);
    d_input[j] = d_hidden[j] = dr;
    d_input[hidden + j] = d_hidden[hidden + j] = dz;
    d_input[2 * hidden + j] = dn;
    d_hidden[2 * hidden + j] = dn * r;
    previous_dh[j] = dh[j] * z;
  }
}

void gru_reset_before_backward(int64_t hidden, const double* previous_h, const Gate& gate,
                               const ConstCellRecord& record, const double* dh, double* d_input,
                               double* d_hidden, double* previous_dh) {
  for (int64_t j = 0; j < hidden; ++j) {
    const double z = record.gates[hidden + j];
    const double n = record.gates[2 * hidden + j];
    d_input[j] = d_hidden[j] = 0;
    d_input[hidden + j] = d_hidden[hidden + j] = dh[j] * (previous_h[j] - n) * gate.slope(z);
    d_input[2 * hidden + j] = d_hidden[2 * hidden + j] = dh[j] * (1 - z) * (1 - n * n);
    previous_dh[j] = dh[j] * z;
  }
}

void rnn_backward(Cell cell, int64_t hidden, const ConstCellRecord& record, const double* dh,
                  double* d_input, double* d_hidden, double* previous_dh) {
  for (int64_t j = 0; j < hidden; ++j) {
    const double h = record.gates[j];
    const double slope = cell == Cell::kRnnTanh ? 1 - h * h : h > 0 ? 1 : 0;
    d_input[j] = d_hidden[j] = dh[j] * slope;
    previous_dh[j] = 0;
  }
}

}  // namespace

Cell cell_named(std::string_view name) {
  if (name == "lstm") return Cell::kLstm;
  if (name == "gru") return Cell::kGru;
  if (name == "gru_reset_before") return Cell::kGruResetBefore;
  if (name == "rnn_tanh") return Cell::kRnnTanh;
  if (name == "rnn_relu") return Cell::kRnnRelu;
  throw std::invalid_argument("no cell is named " + std::string(name));
}

Weights zero_weights(Cell cell, int64_t input, int64_t hidden, int64_t projection, bool peepholes,
                     bool layer_norm) {
  const int64_t gates = gate_count(cell) * hidden;
  const int64_t out = projection > 0 ? projection : hidden;
  return {std::vector<double>(gates * input),
          std::vector<double>(gates * out),
          std::vector<double>(gates),
          std::vector<double>(gates),
          std::vector<double>(projection * hidden),
          std::vector<double>(peepholes ? 3 * hidden : 0),
          std::vector<double>(layer_norm ? gates : 0),
          std::vector<double>(layer_norm ? gates : 0),
          std::vector<double>(layer_norm ? hidden : 0),
          std::vector<double>(layer_norm ? hidden : 0)};
}

void cell_forward(Cell cell, int64_t hidden, const double* from_input, const double* from_hidden,
                  const double* previous_h, const double* previous_c, const CellRecord& record,
                  double* h, const CellExtras& extras) {
  const Gate gate{extras.hard_sigmoid};
  switch (cell) {
    case Cell::kLstm:
      return lstm_forward(hidden, from_input, from_hidden, previous_c, extras, record, h);
    case Cell::kGru:
      return gru_forward(hidden, from_input, from_hidden, previous_h, gate, record, h);
    case Cell::kGruResetBefore:
      return gru_reset_before_forward(hidden, from_input, from_hidden, previous_h, gate, record, h);
    case Cell::kRnnTanh:
    case Cell::kRnnRelu:
      return rnn_forward(cell, hidden, from_input, from_hidden, record, h);
  }
}

void cell_backward(Cell cell, int64_t hidden, const double* previous_h, const double* previous_c,
                   const ConstCellRecord& record, const double* dh, double* dc, double* d_input,
                   double* d_hidden, double* previous_dh, const CellExtras& extras,
                   double* d_normalized) {
  const Gate gate{extras.hard_sigmoid};
  if (cell == Cell::kGru)
    return gru_backward(hidden, previous_h, gate, record, dh, d_input, d_hidden, previous_dh);
  if (cell == Cell::kGruResetBefore)
    return gru_reset_before_backward(hidden, previous_h, gate, record, dh, d_input, d_hidden,
                                     previous_dh);
  if (cell != Cell::kLstm)
    return rnn_backward(cell, hidden, record, dh, d_input, d_hidden, previous_dh);
  lstm_backward(hidden, previous_c, extras, record, dh, dc, d_input, d_normalized);
  for (int64_t j = 0; j < 4 * hidden; ++j) d_hidden[j] = d_input[j];
  for (int64_t j = 0; j < hidden; ++j) previous_dh[j] = 0;
}

void reset(int64_t hidden, const double* from_input, const double* from_hidden, const double* h,
           double* reset_h, bool hard_sigmoid) {
  const Gate sigmoid{hard_sigmoid};
  for (int64_t j = 0; j < hidden; ++j) reset_h[j] = sigmoid(from_input[j] + from_hidden[j]) * h[j];
}

void reset_backward(int64_t hidden, const ConstCellRecord& record, const double* h, double* d_reset,
                    double* d_r, bool hard_sigmoid) {
  const Gate gate{hard_sigmoid};
  for (int64_t j = 0; j < hidden; ++j) {
    const double r = record.gates[j];
    d_r[j] = d_reset[j] * h[j] * gate.slope(r);
    d_reset[j] *= r;
  }
}

}  // namespace sluice::oracle
