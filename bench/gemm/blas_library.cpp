#include <dlfcn.h>
#include <omp.h>

#include <memory>

#include "bench/gemm/library.h"

namespace sluice::bench::gemm {
namespace {

// cblas.h of either library, with 32-bit integers.
constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                       float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                       float* c, int ldc);

// A shared library that stays in memory: its threads may outlive the handle.
class SharedLibrary {
 public:
  static std::shared_ptr<SharedLibrary> open(const char* file, std::string& reason) {
    void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) {
      reason = dlerror();  // names the file
      return nullptr;
    }
    return std::make_shared<SharedLibrary>(handle);
  }
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;
  ~SharedLibrary() { dlclose(handle_); }

  template <typename Function>
  Function find(const char* symbol) const {
    return reinterpret_cast<Function>(dlsym(handle_, symbol));
  }

 private:
  void* handle_;
};

std::optional<Library> blas(const char* name, const std::shared_ptr<SharedLibrary>& library,
                            std::string& reason) {
  const auto sgemm = library->find<Sgemm>("cblas_sgemm");
  if (sgemm == nullptr) {
    reason = "it has no cblas_sgemm";
    return std::nullopt;
  }
  return host_library(name, [library, sgemm](const Product& p, const float* a, const float* b,
                                             float* c) {
    const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
    sgemm(kRowMajor, p.transpose_a() ? kTransposed : kPlain, p.transpose_b() ? kTransposed : kPlain,
          m, n, k, 1, a, p.transpose_a() ? m : k, b, p.transpose_b() ? k : n, 0, c, n);
  });
}

}  // namespace

std::optional<Library> open_openblas(std::string& reason) {
  const auto library = SharedLibrary::open("libopenblas.so.0", reason);
  if (!library) return std::nullopt;
  const auto set_threads = library->find<void (*)(int)>("openblas_set_num_threads");
  if (set_threads != nullptr) set_threads(omp_get_max_threads());
  return blas("openblas", library, reason);
}

std::optional<Library> open_mkl(std::string& reason) {
  std::string reason_of_newer;
  auto library = SharedLibrary::open("libmkl_rt.so.3", reason_of_newer);
  if (!library) library = SharedLibrary::open("libmkl_rt.so.2", reason);
  if (!library) return std::nullopt;
  // Before anything else of it: which OpenMP it takes threads from. One is in the process already.
  constexpr int kGnu = 3;
  const auto set_layer = library->find<int (*)(int)>("MKL_Set_Threading_Layer");
  if (set_layer != nullptr) set_layer(kGnu);
  const auto set_threads = library->find<void (*)(int)>("MKL_Set_Num_Threads");
  if (set_threads != nullptr) set_threads(omp_get_max_threads());
  return blas("mkl", library, reason);
}

}  // namespace sluice::bench::gemm
