#pragma once

#include "kernels/elementwise/leaves.h"

/// The CUDA leaves of elementwise.h: arguments are checked already. All but tanh and column_sums
/// give the bits of the cpu leaves.
namespace sluice::kernels::elementwise::cuda {

void fill(Stream& stream, const Tensor& x, double value);
void scale(Stream& stream, const Tensor& x, double factor);
void accumulate(Stream& stream, double factor, const Tensor& x, const Tensor& y);
void convert(Stream& stream, std::span<const Conversion> conversions);
void rearrange(Stream& stream, const Tensor& source, const Tensor& target);
void tanh_forward(Stream& stream, const Tensor& x, const Tensor& y);
void tanh_backward(Stream& stream, const Tensor& y, const Tensor& dy, const Tensor& dx);
void add_bias(Stream& stream, const Tensor& bias, const Tensor& x);
void standardize(Stream& stream, const StandardizeArgs& args);
void column_sums(Stream& stream, const Tensor& x, const Tensor& sums, bool accumulate,
                 const Tensor& factor);
void concatenate(Stream& stream, std::vector<Tensor> parts, const Tensor& whole);
void split(Stream& stream, const Tensor& whole, std::vector<Tensor> parts);
void dropout(Stream& stream, const DropoutArgs& args);

extern const Leaves kLeaves;

}  // namespace sluice::kernels::elementwise::cuda
