#include "kernels/elementwise/cpu/tanh_loops.h"

namespace sluice::kernels::elementwise::cpu {

void tanh_avx2(const float* x, float* y, std::int64_t count) { tanh_loop<float, 8>(x, y, count); }

}  // namespace sluice::kernels::elementwise::cpu
