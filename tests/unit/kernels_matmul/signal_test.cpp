#include <gtest/gtest.h>
#include <omp.h>
#include <signal.h>
#include <sys/time.h>

#include <random>
#include <vector>

#include "kernels/matmul/cpu/gemm.h"

/// A product is right, and no memory is lost, while signals interrupt it. A handler's frame lies
/// below the stack pointer (and the 128 bytes that the ABI spares), so code that keeps data there,
/// as oneDNN 2.6.3's dnnl_sgemm does, finds it overwritten.
namespace sluice::kernels::matmul::cpu {
namespace {

volatile sig_atomic_t interruptions = 0;

void use_stack(int) {
  volatile unsigned char frame[4096];
  for (volatile unsigned char& byte : frame) byte = 0xff;
  interruptions = interruptions + 1;
}

/// While one lives, a signal comes every half millisecond.
class Storm {
 public:
  Storm() {
    interruptions = 0;
    struct sigaction action {};
    action.sa_handler = use_stack;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &before_);
    const itimerval every{{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &every, nullptr);
  }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;
  ~Storm() {
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
};

template <typename T>
class Signals : public ::testing::Test {};
using Types = ::testing::Types<float, double, base::BFloat16>;
TYPED_TEST_SUITE(Signals, Types);

template <typename T>
void multiply_in_storm(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a,
                       bool transpose_b) {
  constexpr int kInterruptions = 150;
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<T> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  for (T& value : a) value = static_cast<T>(uniform(engine));
  for (T& value : b) value = static_cast<T>(uniform(engine));
  const auto multiply = [&] {
    std::vector<Sum<T>> c(static_cast<std::size_t>(m * n));
    gemm<T>(transpose_a, transpose_b, m, n, k, Sum<T>(1), a.data(), transpose_a ? m : k, b.data(),
            transpose_b ? k : n, Sum<T>(0), c.data(), n);
    return c;
  };
  const std::vector<Sum<T>> expected = multiply();
  const Storm storm;
  while (interruptions < kInterruptions) ASSERT_EQ(multiply(), expected);
}

TYPED_TEST(Signals, LeaveProductsAlone) {
  // One thread, so that the signals meet the one that multiplies.
  omp_set_num_threads(1);
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      multiply_in_storm<TypeParam>(257, 300, 129, transpose_a, transpose_b);
      multiply_in_storm<TypeParam>(33, 65, 129, transpose_a, transpose_b);
    }
  }
}

}  // namespace
}  // namespace sluice::kernels::matmul::cpu
