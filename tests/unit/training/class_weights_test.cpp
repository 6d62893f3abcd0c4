#include "training/class_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/labelled_corpus.h"
#include "unit/support/temporary_folder.h"

namespace sluice::training {
namespace {

using sluice::testing::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ClassWeights : public ::testing::Test {
 protected:
  ClassWeights() {
    for (const std::int32_t label : {0, 2, 2, 2, 2, 0}) {
      examples_.source.push_back({5, 6});
      examples_.labels.push_back(label);
    }
  }

  std::vector<float> of(const std::string& text) const {
    return class_weights_of(text, labels_, examples_);
  }
  std::string refusal_of(const std::string& text) const {
    return error_of([&] { of(text); }).what();
  }

  data::Labels labels_{{"a", "b=c", "d"}};
  data::LabelledCorpus examples_;
};

TEST_F(ClassWeights, AreListedByLabel) {
  EXPECT_THAT(of("d=0.5"), ElementsAre(1, 1, 0.5F));
  EXPECT_THAT(of(" d = 0 ,b=c=2e1"), ElementsAre(1, 20, 0));
}

// Six targets, three labels: 6 / (3 * 2), none, 6 / (3 * 4).
TEST_F(ClassWeights, BalancedAreOneOverTheCount) {
  EXPECT_THAT(of("balanced"), ElementsAre(1, 1, 0.5F));
}

TEST_F(ClassWeights, WhatIsNoListIsRefused) {
  EXPECT_THAT(refusal_of("x=2"), HasSubstr("the label 'x', but the labels are a, b=c, d"));
  EXPECT_THAT(refusal_of("a=1,a=2"), HasSubstr("'a' twice"));
  for (const char* text : {"a", "a=", "a=-1", "a=nan", "a=1x", "a=1,,d=2", "a=inf", "balance"}) {
    EXPECT_THAT(refusal_of(text), HasSubstr("training.class_weights has '")) << text;
  }
}

}  // namespace
}  // namespace sluice::training
