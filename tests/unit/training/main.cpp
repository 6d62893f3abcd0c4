#include <gtest/gtest.h>

#include "unit/support/skips.h"
#include "unit/training/reversal_task.h"

int main(int count, char** arguments) {
  if (const auto status = sluice::training::run_spawned_training(count, arguments)) return *status;
  ::testing::InitGoogleTest(&count, arguments);
  sluice::testing::watch_skips();
  return RUN_ALL_TESTS();
}
