#include "kernels/onednn_part.h"

#include <gtest/gtest.h>

namespace sluice::kernels {
namespace {

// Without it, bfloat16 products are widened and as right as before.
TEST(OnednnPart, IsOpenedOnce) {
  const OpenedOnednn& opened = onednn_part();
  ASSERT_NE(opened.part, nullptr) << opened.missing;
  EXPECT_EQ(&onednn_part(), &opened);
}

}  // namespace
}  // namespace sluice::kernels
