#include "training/threads.h"

#include <omp.h>

namespace sluice::training {

std::int64_t use_threads(const runtime::Context& context, std::int64_t threads) {
  if (threads > 0) {
    const auto count = static_cast<int>(threads);
    omp_set_num_threads(count);
    // OpenMP's setting belongs to a thread, and a device may have one of its own for kernels.
    if (context.device().runs_host_kernels()) {
      context.stream().launch([=] { omp_set_num_threads(count); });
    }
  }
  return omp_get_max_threads();
}

}  // namespace sluice::training
