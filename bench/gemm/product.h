#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/shape_file.h"
#include "kernels/matmul/matmul.h"

namespace sluice::bench::gemm {

/// What a recurrent layer multiplies. The first two make up a forward pass, all a training step.
/// T time steps, B rows, G gates, H hidden, I inputs, R width of h.
enum class Kind {
  kInput,          ///< x W_ih' of all steps: [T*B, I] x [I, G*H]
  kStep,           ///< h W_hh' of a step: [B, R] x [R, G*H]
  kStepBackward,   ///< dgates W_hh of a step: [B, G*H] x [G*H, R]
  kInputBackward,  ///< dgates W_ih of all steps: [T*B, G*H] x [G*H, I]
  kGradient,       ///< dgates' x of all steps: [G*H, T*B] x [T*B, I]
};

/// "input", "step", "step-backward", "input-backward", "gradient"
std::string_view name_of(Kind kind);

/// c = op(a) op(b): [m, k] x [k, n].
struct Product {
  std::string name;  ///< of the first shape that has it
  Kind kind = Kind::kInput;
  std::int64_t m = 0, n = 0, k = 0;
  base::DType dtype = base::DType::kFloat32;  ///< of a and b; c has that of sums
  bool tf32 = false;
  std::string device;

  bool transpose_a() const { return kind == Kind::kGradient; }
  bool transpose_b() const { return kind == Kind::kInput || kind == Kind::kStep; }
  /// Whether b are weights, the same from run to run.
  bool has_weights() const { return kind != Kind::kGradient; }
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  std::string_view dtype_name() const { return tf32 ? "tf32" : base::name_of(dtype); }
};

/// The products of these shapes' layers, of forward passes or of training where a shape has it;
/// those of equal kind, sizes, dtype and device once.
std::vector<Product> products_of(const std::vector<BenchShape>& shapes, bool training);

}  // namespace sluice::bench::gemm
