#include "runtime/threads.h"

#include <omp.h>

#include <algorithm>

namespace sluice::runtime {

namespace {

// oneDNN divides its work by the threads it asks for and leaves a part undone if OpenMP gives
// fewer.
void set_threads(int count) {
  omp_set_dynamic(0);
  omp_set_num_threads(count);
}

}  // namespace

std::int64_t use_threads(const Context& context, std::int64_t threads) {
  const std::int64_t wanted = threads > 0 ? threads : omp_get_max_threads();
  const auto count = static_cast<int>(std::min<std::int64_t>(wanted, omp_get_thread_limit()));
  set_threads(count);
  // OpenMP's setting belongs to a thread, and a device may have one of its own for kernels.
  if (context.device().runs_host_kernels()) {
    context.stream().launch([=] { set_threads(count); });
  }
  return count;
}

}  // namespace sluice::runtime
