// What older versions of NVIDIA's libraries and a libsluice_cuda.so of another build answer when
// they are asked who they are.
#include <cstddef>

extern "C" {

std::size_t cublasLtGetVersion() { return 12805; }

std::size_t cudnnGetVersion() { return 8907; }

int ncclGetVersion(int* version) {
  *version = 1304;
  return 0;
}

const void* sluice_cuda_part() {
  static const char* const build_id = "0.0.1-of-another-build";
  return &build_id;
}
}
