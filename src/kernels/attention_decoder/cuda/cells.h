#pragma once

/// The cells' elementwise parts for one unit. Equations: docs/equations.md. `Math` has the
/// activations: PreciseMath, or recurrent::cuda::FastMath for 16-bit storage.
namespace sluice::kernels::attention_decoder::cuda {

/// Activations as exact as W allows.
struct PreciseMath {
  template <typename W>
  static __device__ W logistic(W x) {
    return W(1) / (W(1) + exp(-x));
  }
  template <typename W>
  static __device__ W tanh(W x) {
    return ::tanh(x);
  }
};

/// Gates, and the states they lead to.
template <typename W, int kBlocks>
struct CellOut {
  W gates[kBlocks];  ///< after activation; of the GRU r, z, n and the hidden part of n
  W c = 0, h = 0;
};

struct Lstm {
  static constexpr int kBlocks = 4;
  static constexpr bool kHasCellState = true;
  static constexpr bool kHasHiddenBlock = false;  ///< one of h alone, the last
  static constexpr bool kReadsState = false;      ///< h_prev, other than by the product

  template <typename Math, typename W>
  static __device__ CellOut<W, 4> forward(const W (&sums)[4], W, W c_prev) {
    CellOut<W, 4> out{{Math::logistic(sums[0]), Math::logistic(sums[1]), Math::tanh(sums[2]),
                       Math::logistic(sums[3])}};
    out.c = out.gates[1] * c_prev + out.gates[0] * out.gates[2];
    out.h = out.gates[3] * Math::tanh(out.c);
    return out;
  }

  /// dc, of c from later steps, in place becomes that of c_prev. `direct`: of h_prev past the
  /// products; none of cells that don't read it.
  template <typename Math, typename W>
  static __device__ void backward(const W (&gates)[4], W, W c_prev, W c, W dh, W& dc, W& direct,
                                  W (&d_sums)[4]) {
    const W i = gates[0], f = gates[1], g = gates[2], o = gates[3];
    const W c_tanh = Math::tanh(c);
    const W all = dc + dh * o * (W(1) - c_tanh * c_tanh);
    d_sums[0] = all * g * i * (W(1) - i);
    d_sums[1] = all * c_prev * f * (W(1) - f);
    d_sums[2] = all * i * (W(1) - g * g);
    d_sums[3] = dh * c_tanh * o * (W(1) - o);
    dc = all * f;
    direct = W(0);
  }
};

struct Gru {
  static constexpr int kBlocks = 4;
  static constexpr bool kHasCellState = false;
  static constexpr bool kHasHiddenBlock = true;
  static constexpr bool kReadsState = true;

  template <typename Math, typename W>
  static __device__ CellOut<W, 4> forward(const W (&sums)[4], W h_prev, W) {
    const W r = Math::logistic(sums[0]), z = Math::logistic(sums[1]);
    const W n = Math::tanh(sums[2] + r * sums[3]);
    return {{r, z, n, sums[3]}, W(0), n + z * (h_prev - n)};
  }

  template <typename Math, typename W>
  static __device__ void backward(const W (&gates)[4], W h_prev, W, W, W dh, W&, W& direct,
                                  W (&d_sums)[4]) {
    const W r = gates[0], z = gates[1], n = gates[2], hidden = gates[3];
    const W dn = dh * (W(1) - z) * (W(1) - n * n);
    d_sums[0] = dn * hidden * r * (W(1) - r);
    d_sums[1] = dh * (h_prev - n) * z * (W(1) - z);
    d_sums[2] = dn;
    d_sums[3] = dn * r;
    direct = dh * z;
  }
};

/// Its r has been used up: sums[2] has the product of r * h_prev, and what flows back into r comes
/// by way of that product.
struct GruResetBefore {
  static constexpr int kBlocks = 3;
  static constexpr bool kHasCellState = false;
  static constexpr bool kHasHiddenBlock = false;
  static constexpr bool kReadsState = true;

  template <typename Math, typename W>
  static __device__ CellOut<W, 3> forward(const W (&sums)[3], W h_prev, W) {
    const W r = Math::logistic(sums[0]), z = Math::logistic(sums[1]), n = Math::tanh(sums[2]);
    return {{r, z, n}, W(0), n + z * (h_prev - n)};
  }

  template <typename Math, typename W>
  static __device__ void backward(const W (&gates)[3], W h_prev, W, W, W dh, W&, W& direct,
                                  W (&d_sums)[3]) {
    const W z = gates[1], n = gates[2];
    d_sums[0] = W(0);
    d_sums[1] = dh * (h_prev - n) * z * (W(1) - z);
    d_sums[2] = dh * (W(1) - z) * (W(1) - n * n);
    direct = dh * z;
  }
};

struct Tanh {
  template <typename Math, typename W>
  static __device__ W value(W sum) {
    return Math::tanh(sum);
  }
  template <typename W>
  static __device__ W gradient(W h, W dh) {
    return dh * (W(1) - h * h);
  }
};

struct Relu {
  template <typename Math, typename W>
  static __device__ W value(W sum) {
    return sum < W(0) ? W(0) : sum;
  }
  template <typename W>
  static __device__ W gradient(W h, W dh) {
    return h > W(0) ? dh : W(0);
  }
};

template <typename Activation>
struct Rnn {
  static constexpr int kBlocks = 1;
  static constexpr bool kHasCellState = false;
  static constexpr bool kHasHiddenBlock = false;
  static constexpr bool kReadsState = false;

  template <typename Math, typename W>
  static __device__ CellOut<W, 1> forward(const W (&sums)[1], W, W) {
    const W h = Activation::template value<Math>(sums[0]);
    return {{h}, W(0), h};
  }

  template <typename Math, typename W>
  static __device__ void backward(const W (&gates)[1], W, W, W, W dh, W&, W& direct,
                                  W (&d_sums)[1]) {
    d_sums[0] = Activation::gradient(gates[0], dh);
    direct = W(0);
  }
};

}  // namespace sluice::kernels::attention_decoder::cuda
