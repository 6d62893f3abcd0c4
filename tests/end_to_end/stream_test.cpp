#include "end_to_end/workplace.h"

/// Training with examples on the disk (data.stream).
namespace sluice::end_to_end {
namespace {

std::string scores(const Workplace& place, const std::string& model) {
  const Outcome outcome = place.sluice({"score", model, "valid.tsv"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out, "");
  return outcome.out;
}

TEST(Stream, TrainsTheSameModelAndGoesOnExactly) {
  const Workplace place;
  place.expect_streams();
  const std::string expected = scores(place, "memory/last");
  EXPECT_EQ(scores(place, "whole/last"), expected);
  EXPECT_EQ(scores(place, "parts/last"), expected);
}

// Texts one by one, and as running text whose states are carried on.
TEST(Stream, TextsOfALanguageModel) {
  for (const std::string bptt : {"0", "7"}) {
    const Workplace place;
    place.write_texts();
    place.expect_streams("texts.toml", {"training.bptt=" + bptt, "training.max_steps=0",
                                        "training.max_tokens=400", "training.max_rows=16"});
  }
}

TEST(Stream, NoticesOtherExamples) {
  const Workplace place;
  place.train({"training.max_epochs=1", "data.stream=true"});
  place.write("train.tsv", to_tsv(reversals(50, 99)));
  place.expect_train_error({"training.max_epochs=2", "data.stream=true"},
                           {"was started with other training examples"});
}

}  // namespace
}  // namespace sluice::end_to_end
