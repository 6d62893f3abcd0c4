#include "runtime/graph_cache.h"

#include <gtest/gtest.h>

#include <map>

#include "runtime/test/test_device.h"
#include "sluice/error.h"

namespace sluice::runtime {
namespace {

class GraphCacheTest : public ::testing::Test {
 protected:
  /// What `key` adds to the total, and how often the host had to queue it so far.
  int run(GraphCache& cache, std::uint64_t key) {
    Stream& stream = device_.default_stream();
    cache.run(stream, {key}, [&] {
      ++queued_[key];
      stream.launch([this, key] { total_ += key; });
    });
    stream.synchronize();
    return queued_[key];
  }

  test::TestDevice device_;
  std::uint64_t total_ = 0;
  std::map<std::uint64_t, int> queued_;
};

TEST_F(GraphCacheTest, CapturesAtTheSecondTimeAndReplays) {
  GraphCache cache(4);
  EXPECT_EQ(run(cache, 3), 1);
  EXPECT_EQ(cache.graphs(), 0u);
  EXPECT_EQ(run(cache, 3), 2);
  EXPECT_EQ(cache.graphs(), 1u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run(cache, 3), 2);
  EXPECT_EQ(total_, 7u * 3u);
  EXPECT_EQ(run(cache, 100), 1);
  EXPECT_EQ(total_, 7u * 3u + 100u);
}

TEST_F(GraphCacheTest, ForgetsWhatWasNotUsedForLongest) {
  GraphCache cache(2);
  for (const std::uint64_t key : {1, 1, 2, 2, 1}) run(cache, key);
  EXPECT_EQ(cache.graphs(), 2u);
  EXPECT_EQ(run(cache, 3), 1);  // in place of 2
  EXPECT_EQ(cache.graphs(), 1u);
  EXPECT_EQ(run(cache, 1), 2);
  EXPECT_EQ(run(cache, 2), 3);
  EXPECT_EQ(total_, 1u + 1u + 2u + 2u + 1u + 3u + 1u + 2u);
}

TEST_F(GraphCacheTest, WorkThatCantBeCapturedLeavesTheCacheUsable) {
  GraphCache cache(2);
  Stream& stream = device_.default_stream();
  const auto waits = [&] { stream.synchronize(); };
  cache.run(stream, {7}, waits);
  EXPECT_THROW(cache.run(stream, {7}, waits), Error);
  EXPECT_EQ(run(cache, 7), 1);
  EXPECT_EQ(total_, 7u);
}

TEST_F(GraphCacheTest, WorkThatThrewIsNotCapturedTheNextTime) {
  GraphCache cache(2);
  Stream& stream = device_.default_stream();
  EXPECT_THROW(cache.run(stream, {7}, [] { throw Error(ErrorCode::kDevice, "no memory"); }), Error);
  // What no capture takes.
  EXPECT_NO_THROW(cache.run(stream, {7}, [&] { stream.synchronize(); }));
  EXPECT_EQ(cache.graphs(), 0u);
  EXPECT_EQ(run(cache, 7), 1);
  EXPECT_EQ(cache.graphs(), 1u);
  EXPECT_EQ(total_, 7u);
}

}  // namespace
}  // namespace sluice::runtime
