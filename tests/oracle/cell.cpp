#include "oracle/cell.h"

#include <cmath>

namespace sluice::oracle {
namespace {

double sigmoid(double a) { return 1.0 / (1.0 + std::exp(-a)); }

void lstm_forward(int64_t hidden, const double* from_input, const double* from_hidden,
                  const double* previous_c, const double* peephole, const CellRecord& record,
                  double* h) {
  for (int64_t j = 0; j < hidden; ++j) {
    const auto through = [&](int64_t k, double c) {
      return peephole == nullptr ? 0.0 : peephole[k * hidden + j] * c;
    };
    const auto sum = [&](int gate) {
      return from_input[gate * hidden + j] + from_hidden[gate * hidden + j];
    };
    const double i = sigmoid(sum(0) + through(0, previous_c[j]));
    const double f = sigmoid(sum(1) + through(1, previous_c[j]));
    const double g = std::tanh(sum(2));
    record.c[j] = f * previous_c[j] + i * g;
    const double o = sigmoid(sum(3) + through(2, record.c[j]));
    record.gates[j] = i;
    record.gates[hidden + j] = f;
    record.gates[2 * hidden + j] = g;
    record.gates[3 * hidden + j] = o;
    h[j] = o * std::tanh(record.c[j]);
  }
}

void gru_forward(int64_t hidden, const double* from_input, const double* from_hidden,
                 const double* previous_h, const CellRecord& record, double* h) {
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

void lstm_backward(int64_t hidden, const double* previous_c, const double* peephole,
                   const ConstCellRecord& record, const double* dh, double* dc, double* d_gates) {
  for (int64_t j = 0; j < hidden; ++j) {
    const auto weight = [&](int64_t k) {
      return peephole == nullptr ? 0.0 : peephole[k * hidden + j];
    };
    const double i = record.gates[j];
    const double f = record.gates[hidden + j];
    const double g = record.gates[2 * hidden + j];
    const double o = record.gates[3 * hidden + j];
    const double squashed = std::tanh(record.c[j]);
    const double d_output_gate = dh[j] * squashed * o * (1 - o);
    const double dc_total =
        dc[j] + dh[j] * o * (1 - squashed * squashed) + d_output_gate * weight(2);
    d_gates[j] = dc_total * g * i * (1 - i);
    d_gates[hidden + j] = dc_total * previous_c[j] * f * (1 - f);
    d_gates[2 * hidden + j] = dc_total * i * (1 - g * g);
    d_gates[3 * hidden + j] = d_output_gate;
    dc[j] = dc_total * f + d_gates[j] * weight(0) + d_gates[hidden + j] * weight(1);
  }
}

void gru_backward(int64_t hidden, const double* previous_h, const ConstCellRecord& record,
                  const double* dh, double* d_input, double* d_hidden, double* previous_dh) {
  for (int64_t j = 0; j < hidden; ++j) {
    const double r = record.gates[j];
    const double z = record.gates[hidden + j];
    const double n = record.gates[2 * hidden + j];
    const double dn = dh[j] * (1 - z) * (1 - n * n);
    const double dr = dn * record.candidate[j] * r * (1 - r);
    const double dz = dh[j] * (previous_h[j] - n) * z * (1 - z);
    d_input[j] = d_hidden[j] = dr;
    d_input[hidden + j] = d_hidden[hidden + j] = dz;
    d_input[2 * hidden + j] = dn;
    d_hidden[2 * hidden + j] = dn * r;
    previous_dh[j] = dh[j] * z;
  }
}

}  // namespace

Weights zero_weights(Cell cell, int64_t input, int64_t hidden, int64_t projection, bool peepholes) {
  const int64_t gates = gate_count(cell) * hidden;
  const int64_t out = projection > 0 ? projection : hidden;
  return {std::vector<double>(gates * input),
          std::vector<double>(gates * out),
          std::vector<double>(gates),
          std::vector<double>(gates),
          std::vector<double>(projection * hidden),
          std::vector<double>(peepholes ? 3 * hidden : 0)};
}

void cell_forward(Cell cell, int64_t hidden, const double* from_input, const double* from_hidden,
                  const double* previous_h, const double* previous_c, const CellRecord& record,
                  double* h, const double* peephole) {
  if (cell == Cell::kLstm)
    lstm_forward(hidden, from_input, from_hidden, previous_c, peephole, record, h);
  else
    gru_forward(hidden, from_input, from_hidden, previous_h, record, h);
}

void cell_backward(Cell cell, int64_t hidden, const double* previous_h, const double* previous_c,
                   const ConstCellRecord& record, const double* dh, double* dc, double* d_input,
                   double* d_hidden, double* previous_dh, const double* peephole) {
  if (cell == Cell::kGru) {
    gru_backward(hidden, previous_h, record, dh, d_input, d_hidden, previous_dh);
    return;
  }
  lstm_backward(hidden, previous_c, peephole, record, dh, dc, d_input);
  for (int64_t j = 0; j < 4 * hidden; ++j) d_hidden[j] = d_input[j];
  for (int64_t j = 0; j < hidden; ++j) previous_dh[j] = 0;
}

}  // namespace sluice::oracle
