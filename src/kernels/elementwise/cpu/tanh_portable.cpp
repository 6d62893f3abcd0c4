#include "kernels/elementwise/cpu/tanh_loops.h"

namespace sluice::kernels::elementwise::cpu {

void tanh_portable(const float* x, float* y, std::int64_t count) {
  tanh_loop<float, 4>(x, y, count);
}

void tanh_portable(const double* x, double* y, std::int64_t count) {
  tanh_loop<double, 2>(x, y, count);
}

}  // namespace sluice::kernels::elementwise::cpu
