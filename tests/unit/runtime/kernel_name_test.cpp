#include "runtime/kernel_name.h"

#include <gtest/gtest.h>

namespace sluice::runtime {
namespace {

TEST(KernelName, IsWhatAPersonReads) {
  EXPECT_EQ(readable_kernel_name("void sluice::kernels::cuda::(anonymous namespace)::scan<"
                                 "sluice::base::Float16, 4>(sluice::Args, int (*)(int))"),
            "scan<Float16, 4>");
  EXPECT_EQ(readable_kernel_name("gemm_kernel"), "gemm_kernel");
  EXPECT_EQ(readable_kernel_name("void a::run<(a::Way)1>(float*)"), "run<(Way)1>");
  EXPECT_EQ(readable_kernel_name("::"), "");
  EXPECT_EQ(readable_kernel_name(std::string(500, 'k')), std::string(80, 'k'));
}

}  // namespace
}  // namespace sluice::runtime
