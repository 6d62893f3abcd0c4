// Entity F1 equals that of the seqeval package (tests/peers/entity_f1.py writes the goldens).
#include "metrics/entity_f1.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sluice/error.h"
#include "unit/support/source_path.h"

namespace sluice::metrics {
namespace {

using Json = nlohmann::json;
using Labels = std::vector<std::string>;

// [precision, recall, F1, expected]: quotients of the same whole numbers.
void expect_equal(const EntityScore& score, const Json& golden, const std::string& what) {
  EXPECT_NEAR(score.precision(), golden.at(0), 1e-15) << what;
  EXPECT_NEAR(score.recall(), golden.at(1), 1e-15) << what;
  EXPECT_NEAR(score.f1(), golden.at(2), 1e-15) << what;
  EXPECT_EQ(score.expected, golden.at(3)) << what;
}

TEST(EntityF1, IsThatOfSeqeval) {
  std::ifstream file(testing::source_path("tests/peers/goldens/entity_f1.json"));
  const Json goldens = Json::parse(file);
  for (const Json& golden : goldens.at("cases")) {
    const std::string name = golden.at("name");
    EntityF1 f1;
    for (std::size_t i = 0; i < golden.at("expected").size(); ++i) {
      f1.add(golden.at("predicted")[i].get<Labels>(), golden.at("expected")[i].get<Labels>());
    }
    const Json& types = golden.at("scores").at("types");
    expect_equal(f1.total(), golden.at("scores").at("micro"), name);
    EXPECT_EQ(f1.by_type().size(), types.size()) << name;
    for (const auto& [type, score] : f1.by_type()) {
      ASSERT_TRUE(types.contains(type)) << name << ", " << type;
      expect_equal(score, types.at(type), name + ", " + type);
    }
  }
  EXPECT_EQ(goldens.at("cases").size(), 20u);
}

TEST(EntityF1, OfNothingIsZero) {
  const EntityF1 f1;
  EXPECT_EQ(f1.total().precision(), 0);
  EXPECT_EQ(f1.total().recall(), 0);
  EXPECT_EQ(f1.total().f1(), 0);
}

TEST(EntityF1, RefusesSentencesOfDifferentLength) {
  EntityF1 f1;
  EXPECT_THROW(f1.add(Labels{"O"}, Labels{"O", "O"}), Error);
}

}  // namespace
}  // namespace sluice::metrics
