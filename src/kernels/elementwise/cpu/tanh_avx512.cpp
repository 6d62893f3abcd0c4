#include "kernels/elementwise/cpu/tanh_loops.h"

namespace sluice::kernels::elementwise::cpu {

void tanh_avx512(const float* x, float* y, std::int64_t count) {
  tanh_loop<float, 16>(x, y, count);
}

}  // namespace sluice::kernels::elementwise::cpu
