#pragma once

#include <concepts>

/// The cells as epilogues: elementwise functions of a register's worth of units, the same source
/// for every instruction set. A value type V offers + - * and a constructor from one float that
/// fills all lanes, and functions sigmoid(V), tanh(V), relu(V) and where_positive(V, V) found by
/// argument-dependent lookup. Equations: docs/equations.md (LSTM: Hochreiter and Schmidhuber 1997
/// with forget gates, peepholes of Gers and Schmidhuber 2000; GRU: Cho et al. 2014 with the reset
/// gate after the product or, as there, before it; plain RNN: Elman 1990).
namespace sluice::kernels::recurrent::cpu {

/// The gradient of a hard sigmoid's argument from that of its value.
template <std::floating_point S>
S hard_sigmoid_gradient(S d, S value) {
  return value > 0 && value < 1 ? S(0.2) * d : S(0);
}

/// The functions of gates: value(sum), and the sum's gradient from that of the value. Cells take
/// one as `Gate`.
struct Logistic {
  template <typename V>
  static V value(const V& sum) {
    return sigmoid(sum);
  }
  template <typename V>
  static V gradient(const V& d, const V& value) {
    return d * value * (V(1) - value);
  }
};
/// Takes two more functions of V: hard_sigmoid(V) and hard_sigmoid_gradient(V, V).
struct HardSigmoid {
  template <typename V>
  static V value(const V& sum) {
    return hard_sigmoid(sum);
  }
  template <typename V>
  static V gradient(const V& d, const V& value) {
    return hard_sigmoid_gradient(d, value);
  }
};

template <typename V>
struct LstmOut {
  V i, f, g, o;  ///< after activation
  V c, h;
};

/// Arguments are the sums of each gate before activation.
template <typename Gate = Logistic, typename V>
inline LstmOut<V> lstm_forward(const V& i, const V& f, const V& g, const V& o, const V& c_prev) {
  LstmOut<V> out{Gate::value(i), Gate::value(f), tanh(g), Gate::value(o), c_prev, c_prev};
  out.c = out.f * c_prev + out.i * out.g;
  out.h = out.o * tanh(out.c);
  return out;
}

/// Weights of c before the step to i and f, and after it to o.
template <typename V>
struct Peepholes {
  V i, f, o;
};

template <typename Gate = Logistic, typename V>
inline LstmOut<V> lstm_forward(const V& i, const V& f, const V& g, const V& o, const V& c_prev,
                               const Peepholes<V>& from_c) {
  LstmOut<V> out{Gate::value(i + from_c.i * c_prev),
                 Gate::value(f + from_c.f * c_prev),
                 tanh(g),
                 o,
                 c_prev,
                 c_prev};
  out.c = out.f * c_prev + out.i * out.g;
  out.o = Gate::value(o + from_c.o * out.c);
  out.h = out.o * tanh(out.c);
  return out;
}

template <typename V>
struct LstmGradient {
  V i, f, g, o;  ///< of the sums before activation
  V c_prev;
};

/// i, f, g, o after activation; c after the step; dc what flows into c from later steps.
template <typename Gate = Logistic, typename V>
inline LstmGradient<V> lstm_backward(const V& i, const V& f, const V& g, const V& o,
                                     const V& c_prev, const V& c, const V& dh, const V& dc) {
  const V one(1);
  const V c_tanh = tanh(c);
  const V dc_all = dc + dh * o * (one - c_tanh * c_tanh);
  return {Gate::gradient(dc_all * g, i), Gate::gradient(dc_all * c_prev, f),
          dc_all * i * (one - g * g), Gate::gradient(dh * c_tanh, o), dc_all * f};
}

template <typename Gate = Logistic, typename V>
inline LstmGradient<V> lstm_backward(const V& i, const V& f, const V& g, const V& o,
                                     const V& c_prev, const V& c, const V& dh, const V& dc,
                                     const Peepholes<V>& from_c) {
  LstmGradient<V> d = lstm_backward<Gate>(i, f, g, o, c_prev, c, dh,
                                          dc + Gate::gradient(dh * tanh(c), o) * from_c.o);
  d.c_prev = d.c_prev + d.i * from_c.i + d.f * from_c.f;
  return d;
}

template <typename V>
struct GruOut {
  V r, z, n;  ///< after activation
  V h;
};

/// r, z: sums of both products; n_input, n_hidden: W_n x + b_in and R_n h + b_hn, kept apart.
template <typename Gate = Logistic, typename V>
inline GruOut<V> gru_forward(const V& r, const V& z, const V& n_input, const V& n_hidden,
                             const V& h_prev) {
  GruOut<V> out{Gate::value(r), Gate::value(z), n_input, h_prev};
  out.n = tanh(n_input + out.r * n_hidden);
  out.h = out.n + out.z * (h_prev - out.n);
  return out;
}

template <typename V>
struct GruGradient {
  V r, z;      ///< of the sums before activation
  V n_input;   ///< of W_n x + b_in
  V n_hidden;  ///< of R_n h + b_hn
  V h_prev;    ///< the direct part, not through the product
};

/// r, z, n after activation.
template <typename Gate = Logistic, typename V>
inline GruGradient<V> gru_backward(const V& r, const V& z, const V& n, const V& n_hidden,
                                   const V& h_prev, const V& dh) {
  const V one(1);
  const V dn = dh * (one - z) * (one - n * n);
  return {Gate::gradient(dn * n_hidden, r), Gate::gradient(dh * (h_prev - n), z), dn, dn * r,
          dh * z};
}

/// GRU that resets before the product. Arguments are the sums of each gate, that of n with the
/// product of r * h.
template <typename Gate = Logistic, typename V>
inline GruOut<V> gru_reset_before_forward(const V& r, const V& z, const V& n, const V& h_prev) {
  GruOut<V> out{Gate::value(r), Gate::value(z), tanh(n), h_prev};
  out.h = out.n + out.z * (h_prev - out.n);
  return out;
}

template <typename V>
struct GruResetBeforeGradient {
  V z, n;    ///< of the sums before activation
  V h_prev;  ///< the direct part, through neither product
};

template <typename Gate = Logistic, typename V>
inline GruResetBeforeGradient<V> gru_reset_before_backward(const V& z, const V& n, const V& h_prev,
                                                           const V& dh) {
  const V one(1);
  return {Gate::gradient(dh * (h_prev - n), z), dh * (one - z) * (one - n * n), dh * z};
}

template <typename V>
struct ResetGradient {
  V r;  ///< of the sum before activation
  V h;
};

/// Of r * h from d: r after activation, h what the product reads.
template <typename Gate = Logistic, typename V>
inline ResetGradient<V> reset_backward(const V& r, const V& h, const V& d) {
  return {Gate::gradient(d * h, r), d * r};
}

/// Plain RNN: h from the sum, and the sum's gradient from h.
struct RnnTanh {
  template <typename V>
  static V forward(const V& sum) {
    return tanh(sum);
  }
  template <typename V>
  static V backward(const V& h, const V& dh) {
    return dh * (V(1) - h * h);
  }
};
struct RnnRelu {
  template <typename V>
  static V forward(const V& sum) {
    return relu(sum);
  }
  template <typename V>
  static V backward(const V& h, const V& dh) {
    return where_positive(h, dh);
  }
};

}  // namespace sluice::kernels::recurrent::cpu
