#include "data/labels.h"

#include <gtest/gtest.h>

#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using sluice::testing::error_of;

TEST(Labels, HaveIdsInOrder) {
  const Labels labels({"O", "B-person", "I-person"});
  EXPECT_EQ(labels.size(), 3);
  EXPECT_EQ(labels.name(1), "B-person");
  EXPECT_EQ(labels.find("I-person"), 2);
  EXPECT_EQ(labels.find("B-place"), std::nullopt);
  EXPECT_THROW(labels.name(3), Error);
  EXPECT_THROW(labels.name(-1), Error);
}

TEST(Labels, AreStoredAndReadBack) {
  const std::vector<std::string> names{"O", "has space", "\xE4\xBA\xBA", "\ttab"};
  const std::string bytes = Labels(names).serialize();
  EXPECT_EQ(Labels::parse(bytes).names(), names);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(error_of([&] { Labels::parse(bytes.substr(0, size)); }).code(), ErrorCode::kFormat);
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_EQ(error_of([&] { Labels::parse(damaged); }).code(), ErrorCode::kFormat) << at;
  }
}

TEST(Labels, RefuseWhatIsNoList) {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{}, {"a", ""}, {"a", "b", "a"}, {"a\nb"}}) {
    EXPECT_EQ(error_of([&] { Labels{names}; }).code(), ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace sluice::data
