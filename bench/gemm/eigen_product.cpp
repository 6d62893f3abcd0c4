#include "bench/gemm/eigen_product.h"

#if __has_include(<eigen3/Eigen/Core>)
#include <eigen3/Eigen/Core>
#endif

namespace sluice::bench::gemm {

// Compiled for AVX2 with FMA, so that Eigen uses them; library.cpp asks the processor first.
#if __has_include(<eigen3/Eigen/Core>)
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Input = Eigen::Map<const Matrix>;

void multiply(const EigenProduct& p, int threads) {
  Eigen::setNbThreads(threads);
  Eigen::Map<Matrix> c(p.c, p.m, p.n);
  const Input a(p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k);
  const Input b(p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n);
  if (p.transpose_a && p.transpose_b) {
    c.noalias() = a.transpose() * b.transpose();
  } else if (p.transpose_a) {
    c.noalias() = a.transpose() * b;
  } else if (p.transpose_b) {
    c.noalias() = a * b.transpose();
  } else {
    c.noalias() = a * b;
  }
}

}  // namespace

EigenMultiply eigen_multiply() { return multiply; }
#else
EigenMultiply eigen_multiply() { return nullptr; }
#endif

}  // namespace sluice::bench::gemm
