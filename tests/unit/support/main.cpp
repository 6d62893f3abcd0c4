// Of every test program that has no main of its own.
#include <gtest/gtest.h>

#include "unit/support/skips.h"

int main(int count, char** arguments) {
  ::testing::InitGoogleTest(&count, arguments);
  sluice::testing::watch_skips();
  return RUN_ALL_TESTS();
}
