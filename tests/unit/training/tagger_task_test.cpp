#include "training/tagger_task.h"

#include <random>

#include "training/tagger_data.h"
#include "training/trainer.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::training {
namespace {

/// Sentences in which the word before says what a name is.
std::string sentences(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const std::string name = std::string("n") + static_cast<char>('a' + random() % 6);
      const std::string last = std::string("n") + static_cast<char>('a' + random() % 6);
      switch (random() % 3) {
        case 0:
          text += "mr\tO\n" + name + "\tB-per\n" + last + "\tI-per\n";
          break;
        case 1:
          text += "in\tO\n" + name + "\tB-loc\n";
          break;
        default:
          text += "the\tO\n" + name + "\tO\n";
      }
    }
    text += "\n";
  }
  return text;
}

class TaggerTaskTest : public testing::OnDevice {
 protected:
  TaggerTaskTest() {
    config_.data.conll = folder_.write("train.conll", sentences(150, 1));
    config_.data.validation_conll = folder_.write("dev.conll", sentences(40, 2));
    config_.tokenizer.kind = "words";
    config_.model.kind = "tagger";
    config_.model.embedding = 12;
    config_.model.hidden = 16;
    config_.model.dropout = 0.1;
    config_.loop.keep_best = "f1";
    config_.loop.max_epochs = 10;
    config_.loop.max_tokens = 300;
    config_.learning_rate.learning_rate = 0.02;
    config_.output.directory = (folder_ / "run").string();
  }

  TrainData read(const Tokenizers* saved = nullptr) {
    config_.validate();
    return task_of(config_).read_data(config_, saved);
  }
  TrainResult train() {
    Trainer trainer(context_, config_, read(), Start::kFresh, RunFolder(folder_ / "run"));
    return trainer.run({});
  }
  void refuse(const std::string& said) {
    const Error error = testing::error_of([&] { read(); });
    EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
  }

  testing::TemporaryFolder folder_;
  TrainConfig config_;
};

TEST_P(TaggerTaskTest, LearnsFromContext) {
  for (const char* output : {"crf", "softmax"}) {
    config_.model.output = output;
    const TrainResult result = train();
    ASSERT_TRUE(result.best.known);
    // Minimised, so the negative F1. Only the word before tells: what knows none of it gets a
    // third.
    EXPECT_LT(result.best.value, -0.95) << output;
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_P(TaggerTaskTest, KeepsWordsAndLabelsWithTheModel) {
  config_.loop.max_epochs = 1;
  train();
  const LoadedModel loaded = model_files::load_model(context_, folder_ / "run" / "best");
  EXPECT_EQ(loaded.kind->name, "tagger");
  EXPECT_EQ(loaded.tokenizers.labels->names(),
            (std::vector<std::string>{"B-loc", "B-per", "I-per", "O"}));
  EXPECT_EQ(loaded.tokenizers.source->size(), 4 + 9);
  EXPECT_EQ(loaded.tokenizers.target, nullptr);
  // A resumed run keeps its labels, whatever the file has now.
  folder_.write("train.conll", "mr\tO\n\n");
  const TrainData data = read(&loaded.tokenizers);
  EXPECT_EQ(data.tokenizers.labels->size(), 4);
}

TEST_P(TaggerTaskTest, HoldsOutSentencesAndRespellsLabels) {
  config_.data.validation_conll = "";
  config_.data.hold_out_run = 5;
  config_.data.hold_out_every = 5;
  config_.data.label_scheme = "bioes";
  const TrainData data = read();
  EXPECT_EQ(data.train->size(), 120);
  ASSERT_NE(data.validation, nullptr);
  EXPECT_EQ(data.validation->size(), 30);
  EXPECT_EQ(data.tokenizers.labels->names(),
            (std::vector<std::string>{"B-per", "E-per", "O", "S-loc"}));
}

TEST_P(TaggerTaskTest, RefusesWhatItHasNoUseFor) {
  const TrainConfig good = config_;
  const auto refuse_with = [&](auto change, const std::string& said) {
    config_ = good;
    change(config_);
    refuse(said);
  };
  refuse_with([](TrainConfig& c) { c.data.conll = ""; }, "set data.conll");
  refuse_with([](TrainConfig& c) { c.data.tsv = "x"; }, "no use for data.tsv");
  refuse_with([](TrainConfig& c) { c.model.encoder_layers = 2; },
              "no use for model.encoder_layers");
  refuse_with([](TrainConfig& c) { c.tokenizer.kind = "bpe"; }, "tokenizer.kind");
  refuse_with([](TrainConfig& c) { c.data.tag_column = 0; }, "data.tag_column is 0");
  refuse_with([](TrainConfig& c) { c.data.label_scheme = "iob"; }, "data.label_scheme");
  refuse_with([](TrainConfig& c) { c.model.output = "max"; }, "model.output");
  refuse_with([](TrainConfig& c) { c.loop.keep_best = "bleu"; }, "training.keep_best");
  refuse_with([](TrainConfig& c) { c.loop.label_smoothing = 0.1; }, "training.label_smoothing");
  refuse_with([](TrainConfig& c) { c.data.hold_out_run = 2; }, "data.hold_out_run");
  folder_.write("dev.conll", "mr\tO\nx\tB-org\n");
  refuse_with([](TrainConfig&) {}, "dev.conll' line 2: the label 'B-org'");
}

INSTANTIATE_TEST_SUITE_P(Devices, TaggerTaskTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::training
