#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

TEST(Average, OfTheSameIsTheSameAndOfOthersIsNot) {
  const Workplace place;
  place.train({"training.max_steps=30", "training.validate_every=10"});
  const auto scores = [&](const std::string& model) {
    const Outcome outcome = place.sluice({"score", model, "valid.tsv"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const Outcome same = place.sluice({"average", "run/last", "run/last", "run/last", "-o", "same"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.out, "same holds the average of 3 checkpoints\n");
  EXPECT_EQ(scores("same"), scores("run/last"));
  // The folder to make may come first, as it had to before there was -o.
  const Outcome first = place.sluice({"average", "first", "run/last", "run/last", "run/last"});
  EXPECT_EQ(first.out, "first holds the average of 3 checkpoints\n") << first.err;
  EXPECT_EQ(place.read("first/model.safetensors"), place.read("same/model.safetensors"));

  place.train({"training.max_steps=30", "training.seed=2", "output.directory=other"});
  const Outcome mixed = place.sluice({"average", "mixed", "run/last", "other/last"});
  EXPECT_EQ(mixed.code, 0) << mixed.err;
  EXPECT_NE(scores("mixed"), scores("run/last"));
  EXPECT_NE(scores("mixed"), scores("other/last"));
}

TEST(Average, RefusesInOneSentence) {
  const Workplace place;
  place.train({"training.max_steps=2"});
  place.train({"training.max_steps=2", "model.hidden=20", "output.directory=wide"});
  place.train_texts({"training.max_steps=2"});
  const std::vector<std::string> before = place.files();
  place.expect_error({"average", "out", "run/last", "wide/last"},
                     {"'run/last' and 'wide/last' cannot be averaged", "hidden (", " and 20)"});
  place.expect_error({"average", "out", "run/last", "text/last"},
                     {"they hold models of kind seq2seq and language_model\n"});
  place.expect_error({"average", "run/best", "run/last", "run/last"},
                     {"'run/best' is there already"});
  place.expect_error({"average", "out", "run/last", "none"}, {"none"});
  EXPECT_EQ(place.files(), before);
  place.expect_error({"average", "task.toml/out", "run/last", "run/best"}, {"'task.toml"});
  EXPECT_EQ(place.sluice({"average", "out", "run/last"}).code, 2);
  place.expect_error({"average", "run/last", "-o", "out"}, {"two"});
}

}  // namespace
}  // namespace sluice::end_to_end
