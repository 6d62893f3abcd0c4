#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice::kernels::elementwise::cpu {

/// Elements handled by one turn of a parallel loop; fewer aren't worth waking a thread for.
inline constexpr std::int64_t kChunk = 16384;

/// Calls body(begin, end) for the chunks of [0, count) from OpenMP threads.
template <typename Body>
void parallel_chunks(std::int64_t count, const Body& body) {
  const std::int64_t chunks = (count + kChunk - 1) / kChunk;
  // A team of one thread, too, takes memory and calls the system.
  if (chunks == 1) return body(0, count);
#pragma omp parallel for schedule(static)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    body(chunk * kChunk, std::min(count, (chunk + 1) * kChunk));
  }
}

}  // namespace sluice::kernels::elementwise::cpu
