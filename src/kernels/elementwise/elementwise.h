#pragma once

#include <span>

#include "runtime/context.h"
#include "runtime/rng.h"
#include "runtime/tensor.h"

/// Operations on single elements, on rows and on columns; each is one launch.
///
/// Tensors are float32 or float64, one dtype in a call, and contiguous where nothing else is said;
/// dropout, concatenate and split also take the 16-bit types.
/// A matrix has two axes; its rows may be strided. Results repeat to the bit whatever the number of
/// threads. Shapes or dtypes that don't fit throw ErrorCode::kInvalidArgument.
namespace sluice::kernels::elementwise {

using runtime::Context;
using runtime::Tensor;

/// x = value. int32 as well.
void fill(const Context& context, const Tensor& x, double value);

/// x = factor * x.
void scale(const Context& context, const Tensor& x, double factor);

/// y = y + factor * x, shapes equal.
void accumulate(const Context& context, double factor, const Tensor& x, const Tensor& y);

struct Conversion {
  Tensor source, target;
};
/// target = source rounded to nearest even; any two of float64, float32, bfloat16, float16. Through
/// float32 unless both are float64. Shapes equal; may be in place only if the dtypes are equal.
void convert(const Context& context, const Tensor& source, const Tensor& target);
/// Many at once: a launch for up to 32 of the same two dtypes.
void convert(const Context& context, std::span<const Conversion> conversions);

/// target = source, both [n, rows, columns] of one dtype. Both may have any strides from one of n
/// and from one row to the next, so this also swaps axes; columns lie next to each other. They
/// don't overlap.
void rearrange(const Context& context, const Tensor& source, const Tensor& target);

/// y = tanh(x); y may be x. float32 is good to 4 units in the last place.
void tanh_forward(const Context& context, const Tensor& x, const Tensor& y);
/// dx = dy * (1 - y^2); dx may be dy.
void tanh_backward(const Context& context, const Tensor& y, const Tensor& dy, const Tensor& dx);

/// x [rows, n] = x + bias [n] in every row; x is a matrix.
void add_bias(const Context& context, const Tensor& bias, const Tensor& x);

/// y = (x - mean) * factor, column by column: features of mean 0 and variance 1 where factor is one
/// over their standard deviation.
struct StandardizeArgs {
  Tensor x;       ///< float32 [rows, n], contiguous
  Tensor mean;    ///< [n], float32 (float64 where y is)
  Tensor factor;  ///< like mean
  Tensor y;       ///< out [rows, n], any floating type: rounded to nearest even
};
void standardize(const Context& context, const StandardizeArgs& args);

/// sums [n] = (accumulate ? sums : 0) + the sum of x [rows, n] over rows, in float64 and rounded
/// once to the master type of x: the gradient of a bias. In rising order on the host, on a GPU in
/// an order that depends on the shape alone. x is a matrix. `factor`, float32 on the device, has in
/// its first element what the sum is multiplied by before it is rounded; absent: 1.
void column_sums(const Context& context, const Tensor& x, const Tensor& sums, bool accumulate,
                 const Tensor& factor = {});

/// whole [rows, n_0 + n_1 + ...] = parts [rows, n_i] side by side; all are matrices, none overlap.
void concatenate(const Context& context, std::span<const Tensor> parts, const Tensor& whole);
/// The inverse: the gradient of concatenate. Parts are overwritten.
void split(const Context& context, const Tensor& whole, std::span<const Tensor> parts);

/// Zeroes elements with probability `rate` and multiplies the others by 1 / (1 - rate), in float32
/// for 16-bit types. Applied to
/// a gradient with the same source it is its own backward.
struct DropoutArgs {
  Tensor x;         ///< [time, rows, features]
  Tensor y;         ///< out, like x; may be x
  Tensor row_ids;   ///< int32 [rows]: global row of each; absent: the row index
  double rate = 0;  ///< 0 <= rate < 1; with 0, y = x
  /// An element is kept if source.key().word(row id, time, feature) reaches
  /// dropout_threshold(rate).
  runtime::DropoutSource source;
};
void dropout(const Context& context, const DropoutArgs& args);

}  // namespace sluice::kernels::elementwise
