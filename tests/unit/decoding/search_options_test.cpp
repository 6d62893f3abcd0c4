#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "decoding/search.h"
#include "sluice/error.h"
#include "unit/support/message_of.h"

namespace sluice::decoding {
namespace {

void expect_refused(const std::string& option, const std::function<void(SearchOptions&)>& change) {
  SearchOptions options;
  change(options);
  try {
    options.validate();
    ADD_FAILURE() << option << " was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(std::string(error.what()).starts_with(option + " is ")) << error.what();
  }
}

TEST(SearchOptions, RefusesWhatCanNotBe) {
  EXPECT_NO_THROW(SearchOptions{}.validate());
  expect_refused("beam", [](auto& o) { o.beam = 0; });
  expect_refused("beam", [](auto& o) { o.beam = 100000; });
  expect_refused("nbest", [](auto& o) { o.nbest = 0; });
  expect_refused("nbest", [](auto& o) { o.nbest = o.beam + 1; });
  expect_refused("length_penalty", [](auto& o) { o.length_penalty = -0.1; });
  expect_refused("length_penalty", [](auto& o) { o.length_penalty = std::nan(""); });
  expect_refused("min_length", [](auto& o) { o.min_length = -1; });
  expect_refused("min_length", [](auto& o) { o.min_length = o.max_length + 1; });
  expect_refused("max_length", [](auto& o) { o.max_length = 0; });
  expect_refused("max_length_factor", [](auto& o) { o.max_length_factor = -1; });
  expect_refused("max_length_factor", [](auto& o) { o.max_length_factor = INFINITY; });
  expect_refused("max_length_offset", [](auto& o) { o.max_length_offset = -1; });
  expect_refused("poll_every", [](auto& o) { o.poll_every = -1; });
  expect_refused("groups", [](auto& o) { o.groups = 0; });
  expect_refused("groups", [](auto& o) { o.groups = o.beam + 1; });
}

TEST(SearchOptions, NamesTheBeamsThatGroupsShareEvenly) {
  SearchOptions options;
  options.beam = 5;
  options.groups = 2;
  EXPECT_EQ(testing::message_of([&] { options.validate(); }),
            "beam is 5, which 2 groups can't share evenly; take a beam that is a multiple of 2");
}

TEST(SearchOptions, MaximumLengthFollowsTheSource) {
  SearchOptions options;
  options.max_length = 20;
  options.max_length_factor = 1.5;
  options.max_length_offset = 2;
  EXPECT_EQ(options.max_length_for(0), 2);
  EXPECT_EQ(options.max_length_for(3), 6);
  EXPECT_EQ(options.max_length_for(12), 20);
  EXPECT_EQ(options.max_length_for(1'000'000'000'000), 20);
  options.max_length_offset = 0;
  EXPECT_EQ(options.max_length_for(0), 1);
  options.min_length = 4;
  EXPECT_EQ(options.max_length_for(1), 4);
}

}  // namespace
}  // namespace sluice::decoding
