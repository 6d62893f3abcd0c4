#pragma once

/// The cells as functors on the numbers of one unit of one row: what a pointwise kernel, or the
/// epilogue of a product, evaluates. Equations and order of gates: docs/equations.md.
///
/// `gates` are the values after activation in the order of the cell, and what else backward needs.
namespace sluice::kernels::recurrent::cuda {

/// What the unit for special functions gives: 2^x and 1/x, to 2^-22 relative at most. Below 2^-126
/// they are zero.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// The lesser; NaN if x is.
__device__ inline float at_most(float bound, float x) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(bound));
  return y;
}

/// Activations to the last places of float32, without a branch, so that those of several gates run
/// interleaved.
struct ExactMath {
  __device__ static float logistic(float x) { return reciprocal(1.0f + exp(-x)); }
  __device__ static float tanh(float x) {
    // Near zero the other form would lose what it subtracts. Fitted to 4e-8 relative up to 0.56.
    const float square = x * x;
    float factor = fmaf(square, 0.016296238f, -0.052600365f);
    factor = fmaf(square, factor, 0.13319667f);
    factor = fmaf(square, factor, -0.33332905f);
    const float large = fmaf(-2.0f, reciprocal(1.0f + exp(2.0f * fabsf(x))), 1.0f);
    return fabsf(x) < 0.55f ? fmaf(x * square, factor, x) : copysignf(large, x);
  }
  /// The gradient of a logistic's argument from that of its value.
  __device__ static float through_logistic(float d, float value) {
    return d * value * (1.0f - value);
  }
  /// Of the LSTM's sums in place.
  __device__ static void activate(float (&gates)[4]) {
#pragma unroll
    for (int g = 0; g < 4; ++g) gates[g] = g == 2 ? tanh(gates[g]) : logistic(gates[g]);
  }

 private:
  /// Up to e^87, the most whose reciprocal is a normal number.
  __device__ static float exp(float x) {
    constexpr float kLog2E = 1.44269502f, kRest = 1.92596303e-8f, kLn2 = 0.693147181f;
    const float bounded = at_most(87.0f, x), power = bounded * kLog2E;
    const float lost = fmaf(bounded, kLog2E, -power) + bounded * kRest;
    const float y = fast_exp2(power);
    return fmaf(y, lost * kLn2, y);
  }
  /// Of what is at least 1.
  __device__ static float reciprocal(float x) {
    const float y = fast_reciprocal(x);
    return fmaf(y, fmaf(-x, y, 1.0f), y);
  }
};

/// Activations for 16-bit storage, whose own rounding is 2^-12 of the value at best. Rounding the
/// exponent errs by |x| * 2^-24: so logistic errs by less than 2^-18 relative to its value above
/// 2^-24; tanh by less than 2^-20, absolutely, as what its exponential errs by fades with it.
struct FastMath {
  __device__ static float logistic(float x) {
    return fast_reciprocal(1.0f + fast_exp2(-kLog2E * x));
  }
  __device__ static float tanh(float x) {
    return fmaf(-2.0f, fast_reciprocal(1.0f + fast_exp2(2 * kLog2E * x)), 1.0f);
  }
  __device__ static float through_logistic(float d, float value) {
    return d * value * (1.0f - value);
  }
  /// Of the LSTM's sums in place, by one reciprocal of all denominators: the unit for special
  /// functions has a quarter of the others' speed. A logistic is 2^-30 at least.
  __device__ static void activate(float (&gates)[4]) {
    float below[4];
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      below[g] = 1.0f + fast_exp2(at_most(30.0f, (g == 2 ? 2 : -1) * kLog2E * gates[g]));
    }
    const float first = below[0] * below[1], last = below[2] * below[3];
    const float all = fast_reciprocal(first * last);
    gates[0] = all * last * below[1];
    gates[1] = all * last * below[0];
    gates[2] = fmaf(-2.0f, all * first * below[3], 1.0f);
    gates[3] = all * first * below[2];
  }

 private:
  static constexpr float kLog2E = 1.44269504f;
};

/// Gates with a hard sigmoid in place of the logistic function.
template <typename Math>
struct HardMath {
  __device__ static float logistic(float x) {
    const float y = fmaf(0.2f, x, 0.5f);
    // Comparisons, not fminf and fmaxf, so that NaN stays.
    return y < 0.0f ? 0.0f : (y > 1.0f ? 1.0f : y);
  }
  __device__ static float tanh(float x) { return Math::tanh(x); }
  __device__ static float through_logistic(float d, float value) {
    return value > 0.0f && value < 1.0f ? 0.2f * d : 0.0f;
  }
};

template <typename Math>
struct LstmCell {
  static constexpr int kGates = 4;  ///< i, f, g, o
  static constexpr int kSaved = 4;
  static constexpr bool kHasCellState = true;
  static constexpr bool kReadsState = false;  ///< h before the step, other than by the product
  /// What the two products give to n is used apart: the recurrent one has a bias and a gradient of
  /// its own.
  static constexpr bool kProductsApart = false;
  static constexpr bool kResetsBefore = false;  ///< r * h goes through the product of n

  /// The k-th value to evaluate, k = 0..kSaved-1: one may need those before it.
  __host__ __device__ static constexpr int order(int k) { return k; }
  /// The gate whose products value `g` takes.
  __host__ __device__ static constexpr int product_of(int g) { return g; }

  /// x: the input's product and the biases; r: the recurrent product.
  __device__ static float gate(int g, float x, float r, float /*bias_hn*/, const float*) {
    return g == 2 ? Math::tanh(x + r) : Math::logistic(x + r);
  }
  /// All values at once.
  __device__ static void evaluate(const float* x, const float* r, float /*bias_hn*/,
                                  float (&gates)[kSaved]) {
#pragma unroll
    for (int g = 0; g < kGates; ++g) gates[g] = x[g] + r[g];
    Math::activate(gates);
  }
  __device__ static float next_c(const float* gates, float c) {
    return gates[1] * c + gates[0] * gates[2];
  }
  /// `c` is the new cell state.
  __device__ static float next_h(const float* gates, float c, float /*h*/) {
    return gates[3] * Math::tanh(c);
  }

  /// The whole gradient of the new cell state, from that of the output and that of later steps.
  __device__ static float whole_dc(const float* gates, float c, float dh, float dc) {
    const float squashed = Math::tanh(c);
    return dc + dh * gates[3] * (1.0f - squashed * squashed);
  }
  /// Whether d_gate is dh times something; else dc.
  __device__ static constexpr bool takes_dh(int g) { return g == 3; }
  /// Gradient of gate g before activation, as the input's product takes it.
  __device__ static float d_gate(int g, const float* gates, float c_before, float c, float /*h*/,
                                 float dh, float dc) {
    const float i = gates[0], f = gates[1], n = gates[2], o = gates[3];
    if (g == 0) return Math::through_logistic(dc * n, i);
    if (g == 1) return Math::through_logistic(dc * c_before, f);
    if (g == 2) return dc * i * (1.0f - n * n);
    return Math::through_logistic(dh * Math::tanh(c), o);
  }
  /// The same as the recurrent product takes it.
  __device__ static float d_recurrent(int, const float*, float d_gate) { return d_gate; }
  __device__ static float dc_before(const float* gates, float dc) { return dc * gates[1]; }
  /// What of dh reaches the previous h other than by the recurrent product.
  __device__ static float dh_direct(const float*, float) { return 0.0f; }
};

template <typename Math>
struct GruCell {
  static constexpr int kGates = 3;  ///< r, z, n
  static constexpr int kSaved = 4;  ///< and R_n h + b_hn
  static constexpr bool kHasCellState = false;
  static constexpr bool kReadsState = true;
  static constexpr bool kProductsApart = true;
  static constexpr bool kResetsBefore = false;

  __host__ __device__ static constexpr int order(int k) { return k < 2 ? k : 5 - k; }
  __host__ __device__ static constexpr int product_of(int g) { return g == 3 ? 2 : g; }

  __device__ static float gate(int g, float x, float r, float bias_hn, const float* gates) {
    if (g == 3) return r + bias_hn;
    return g == 2 ? Math::tanh(x + gates[0] * gates[3]) : Math::logistic(x + r);
  }
  __device__ static void evaluate(const float* x, const float* r, float bias_hn,
                                  float (&gates)[kSaved]) {
#pragma unroll
    for (int k = 0; k < kSaved; ++k) {
      const int g = order(k), p = product_of(g);
      gates[g] = gate(g, x[p], r[p], bias_hn, gates);
    }
  }
  __device__ static float next_c(const float*, float) { return 0.0f; }
  __device__ static float next_h(const float* gates, float /*c*/, float h) {
    return (1.0f - gates[1]) * gates[2] + gates[1] * h;
  }

  __device__ static float whole_dc(const float*, float, float, float) { return 0.0f; }
  __device__ static constexpr bool takes_dh(int) { return true; }
  __device__ static float d_gate(int g, const float* gates, float, float, float h, float dh,
                                 float) {
    const float r = gates[0], z = gates[1], n = gates[2], q = gates[3];
    if (g == 1) return Math::through_logistic(dh * (h - n), z);
    const float dn = dh * (1.0f - z) * (1.0f - n * n);
    return g == 2 ? dn : Math::through_logistic(dn * q, r);
  }
  __device__ static float d_recurrent(int g, const float* gates, float d_gate) {
    return g == 2 ? d_gate * gates[0] : d_gate;
  }
  __device__ static float dc_before(const float*, float) { return 0.0f; }
  __device__ static float dh_direct(const float* gates, float dh) { return dh * gates[1]; }
};

/// The GRU whose recurrent product of n is that of r * h (reset_kernels.h). Of r it knows no
/// gradient: that comes back through the product.
template <typename Math>
struct GruResetBeforeCell {
  static constexpr int kGates = 3;  ///< r, z, n
  static constexpr int kSaved = 3;
  static constexpr bool kHasCellState = false;
  static constexpr bool kReadsState = true;
  static constexpr bool kProductsApart = false;
  static constexpr bool kResetsBefore = true;

  __host__ __device__ static constexpr int order(int k) { return k; }
  __host__ __device__ static constexpr int product_of(int g) { return g; }

  __device__ static float gate(int g, float x, float r, float /*bias_hn*/, const float*) {
    return g == 2 ? Math::tanh(x + r) : Math::logistic(x + r);
  }
  __device__ static float next_c(const float*, float) { return 0.0f; }
  __device__ static float next_h(const float* gates, float /*c*/, float h) {
    return (1.0f - gates[1]) * gates[2] + gates[1] * h;
  }

  __device__ static float whole_dc(const float*, float, float, float) { return 0.0f; }
  __device__ static float d_gate(int g, const float* gates, float, float, float h, float dh,
                                 float) {
    const float z = gates[1], n = gates[2];
    if (g == 0) return 0.0f;
    return g == 1 ? Math::through_logistic(dh * (h - n), z) : dh * (1.0f - z) * (1.0f - n * n);
  }
  /// Gradient of r before activation, from that of r.
  __device__ static float d_reset(float r, float d) { return Math::through_logistic(d, r); }
  __device__ static float d_recurrent(int, const float*, float d_gate) { return d_gate; }
  __device__ static float dc_before(const float*, float) { return 0.0f; }
  __device__ static float dh_direct(const float* gates, float dh) { return dh * gates[1]; }
};

template <typename Math>
struct TanhActivation {
  __device__ static float value(float sum) { return Math::tanh(sum); }
  __device__ static float gradient(float h, float dh) { return dh * (1.0f - h * h); }
};
template <typename Math>
struct ReluActivation {
  __device__ static float value(float sum) { return sum < 0.0f ? 0.0f : sum; }
  __device__ static float gradient(float h, float dh) { return h > 0.0f ? dh : 0.0f; }
};

template <typename Activation>
struct RnnCell {
  static constexpr int kGates = 1;
  static constexpr int kSaved = 1;  ///< h as the step makes it
  static constexpr bool kHasCellState = false;
  static constexpr bool kReadsState = false;
  static constexpr bool kProductsApart = false;
  static constexpr bool kResetsBefore = false;

  __host__ __device__ static constexpr int order(int k) { return k; }
  __host__ __device__ static constexpr int product_of(int g) { return g; }

  __device__ static float gate(int, float x, float r, float /*bias_hn*/, const float*) {
    return Activation::value(x + r);
  }
  __device__ static float next_c(const float*, float) { return 0.0f; }
  __device__ static float next_h(const float* gates, float /*c*/, float /*h*/) { return gates[0]; }

  __device__ static float whole_dc(const float*, float, float, float) { return 0.0f; }
  __device__ static float d_gate(int, const float* gates, float, float, float, float dh, float) {
    return Activation::gradient(gates[0], dh);
  }
  __device__ static float d_recurrent(int, const float*, float d_gate) { return d_gate; }
  __device__ static float dc_before(const float*, float) { return 0.0f; }
  __device__ static float dh_direct(const float*, float) { return 0.0f; }
};

}  // namespace sluice::kernels::recurrent::cuda
