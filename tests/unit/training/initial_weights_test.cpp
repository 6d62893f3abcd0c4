#include "training/initial_weights.h"

#include <gtest/gtest.h>

#include <limits>

#include "io/checkpoint.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

/// Runs that start from the checkpoint of another one.
class InitialWeights : public testing::OnDevice {
 protected:
  InitialWeights() {
    TrainConfig config = reversal_config(folder_ / "base");
    config.loop.max_steps = 2;
    Trainer(context_, config, reversal_data(config), Start::kFresh).run();
    base_ = io::read_model(base());
  }

  std::filesystem::path base() const { return folder_ / "base" / "last"; }
  TrainConfig config_from(const std::filesystem::path& from, const std::string& only = "") const {
    TrainConfig config = reversal_config(folder_ / "run");
    config.loop.seed = 2;
    config.loop.checkpoint_every = 0;
    config.initial.from = from.native();
    config.initial.only = only;
    return config;
  }
  Trainer start(const TrainConfig& config, std::uint64_t data_seed = 1) {
    return Trainer(context_, config, reversal_data(config, data_seed), Start::kResume);
  }
  std::vector<float> values(Trainer& trainer, layers::ParameterId id) {
    return trainer.model().parameters().download<float>(context_, id);
  }
  std::vector<float> saved(const std::string& name) const {
    const auto values = base_.tensors.find(name)->values<float>();
    return {values.begin(), values.end()};
  }
  std::string refusal(const TrainConfig& config, ErrorCode code = ErrorCode::kInvalidArgument) {
    const Error error = testing::error_of([&] { start(config); });
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "last"));
    return error.what();
  }
  static void expect_contains(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
  }

  testing::TemporaryFolder folder_;
  io::Container base_;
};

TEST_P(InitialWeights, AllOfThemWithTheirWords) {
  // Other examples, which would give another tokenizer.
  Trainer trainer = start(config_from(base()), 3);
  const auto& specs = trainer.model().parameters().specs();
  for (layers::ParameterId id = 0; id < specs.size(); ++id) {
    EXPECT_EQ(values(trainer, id), saved(specs[id].name)) << specs[id].name;
  }
  EXPECT_EQ(trainer.data().tokenizers.source->serialize(), base_.blobs.at("tokenizer.source"));
  EXPECT_EQ(trainer.data().tokenizers.target->serialize(), base_.blobs.at("tokenizer.target"));
  ASSERT_EQ(trainer.start_notes().size(), 1u);
  expect_contains(trainer.start_notes()[0], "parameters start from");
}

// Of an encoder of one bidirectional layer: biases of the forget gates, and orthonormal rows.
TEST_P(InitialWeights, DrawnAsTheConfigurationSays) {
  TrainConfig config = reversal_config(folder_ / "plain");
  config.model.cell = "lstm";
  Trainer plain = start(config);
  config.initial.initializer = "xavier_uniform";
  config.initial.recurrent_initializer = "orthogonal";
  config.initial.forget_bias = 2;
  config.initial.gate_bias = "o=-1";
  config.output.directory = folder_ / "chosen";
  Trainer chosen = start(config);
  const auto& specs = chosen.model().parameters().specs();
  int biases = 0, recurrent = 0;
  for (layers::ParameterId id = 0; id < specs.size(); ++id) {
    const std::vector<float> before = values(plain, id), after = values(chosen, id);
    const std::string& name = specs[id].name;
    if (name.find("bias_ih") != std::string::npos) {
      ++biases;
      const std::size_t hidden = after.size() / 4;
      for (std::size_t i = 0; i < after.size(); ++i) {
        const double added = i / hidden == 1 ? 2 : i / hidden == 3 ? -1 : 0;
        EXPECT_EQ(after[i], static_cast<float>(before[i] + added));
      }
    } else if (name.find("weight_hh") != std::string::npos) {
      ++recurrent;
      double square = 0;
      for (std::int64_t i = 0; i < specs[id].shape[1]; ++i) {
        square += after[static_cast<std::size_t>(i)] * after[static_cast<std::size_t>(i)];
      }
      EXPECT_NEAR(square, 1, 1e-5) << name;
    } else if (name.find("bias") == std::string::npos &&
               name.find("embedding") == std::string::npos &&
               name.find("score") == std::string::npos) {
      EXPECT_NE(after, before) << name;
    } else {
      EXPECT_EQ(after, before) << name;
    }
  }
  EXPECT_GE(biases, 2);
  EXPECT_GE(recurrent, 2);
}

TEST_P(InitialWeights, ThoseChosenAndTheOthersAsDrawn) {
  TrainConfig config = config_from(base(), "target_embedding.*,*coder.bias_ih_l0");
  config.model.attention = "multiplicative";  // what is not chosen need not be there
  Trainer trainer = start(config);
  config.initial = {};
  config.output.directory = folder_ / "drawn";
  Trainer drawn = start(config);
  EXPECT_TRUE(drawn.start_notes().empty());
  int taken = 0;
  const auto& specs = trainer.model().parameters().specs();
  for (layers::ParameterId id = 0; id < specs.size(); ++id) {
    const std::string& name = specs[id].name;
    const bool chosen = name == "target_embedding.weight" || name == "encoder.bias_ih_l0" ||
                        name == "decoder.bias_ih_l0";
    taken += chosen;
    EXPECT_EQ(values(trainer, id), chosen ? saved(name) : values(drawn, id)) << name;
    EXPECT_TRUE(!chosen || values(trainer, id) != values(drawn, id)) << name;
  }
  EXPECT_EQ(taken, 3);
}

// The checkpoint is gone, and the resumed run says nothing of it.
TEST_P(InitialWeights, AreSetOnceAndResumeExactly) {
  TrainConfig config = config_from(base(), "encoder.*");
  start(config).run();
  const Outcome whole = outcome_of(folder_ / "run");

  config.output.directory = folder_ / "cut";
  config.loop.max_steps = 5;
  start(config).run();
  std::filesystem::rename(folder_ / "base", folder_ / "moved");
  config.initial = {};
  config.loop.max_steps = 21;
  start(config).run();
  EXPECT_EQ(outcome_of(folder_ / "cut"), whole);
  // Nor does it forget.
  EXPECT_EQ(run_config(model_files::load_model(context_, folder_ / "cut" / "last")).initial.only,
            "encoder.*");

  config.initial.from = "other";
  const Tokenizers tokenizers = model_files::load_tokenizers(folder_ / "cut" / "last");
  const Error error = testing::error_of([&] {
    Trainer(context_, config, make_train_data(config, reversal_text(), &tokenizers),
            Start::kResume);
  });
  expect_contains(error.what(), "training.init_from");
}

// Whoever starts it again without the flags gets the same run.
TEST_P(InitialWeights, AreSavedBeforeTheFirstStep) {
  TrainConfig config = config_from(base());
  config.loop.max_steps = 1;
  const std::atomic<bool> stop = true;
  TrainHooks hooks;
  hooks.on_step = [](const StepReport&) { ADD_FAILURE(); };
  hooks.stop = &stop;
  start(config).run(hooks);
  const io::Container saved = io::read_model(folder_ / "run" / "last");
  for (const auto& [name, tensor] : base_.tensors) {
    EXPECT_EQ(saved.tensors.find(name)->data, tensor.data) << name;
  }
}

TEST_P(InitialWeights, RefuseWhatDoesNotFit) {
  TrainConfig config = config_from(base());
  config.model.hidden = 18;
  const std::string shapes = refusal(config);
  expect_contains(shapes, "'" + (base() / "model.safetensors").native() + "' does not fit");
  expect_contains(shapes, "its output.weight is float32 [10, 16], the run's float32 [10, 18]");
  expect_contains(shapes,
                  "may choose: source_embedding.weight, target_embedding.weight, output.bias");
  config = config_from(base());
  config.model.encoder_layers = 2;
  expect_contains(refusal(config), "it has no encoder.weight_ih_l1");
  config = config_from(base());
  config.model.bidirectional = false;
  expect_contains(refusal(config), "the run has no 'encoder.weight_ih_l0_reverse'");
  expect_contains(refusal(config_from(base(), "encoder.*,encodr.*")),
                  "'encodr.*' of training.init_only matches no parameter; choose from: source_emb");
  expect_contains(refusal(config_from("", "encoder.*")), "training.init_from names no checkpoint");
  expect_contains(refusal(config_from("none"), ErrorCode::kNotFound), "none");
}

TEST_P(InitialWeights, RefuseOtherWords) {
  TrainConfig config = config_from(base());
  config.tokenizer.kind = "words";
  expect_contains(refusal(config), "tokenizer.kind is 'words'");
  // A caller that brings tokenizers of its own.
  config = config_from(base());
  TextData text = reversal_text();
  for (auto* examples : {&text.train, &text.validation}) {
    for (data::TextPair& pair : *examples) {
      std::replace(pair.source.begin(), pair.source.end(), '3', 'x');
    }
  }
  TrainConfig plain = config;
  plain.initial = {};
  const Error error = testing::error_of(
      [&] { Trainer(context_, config, make_train_data(plain, text), Start::kFresh); });
  expect_contains(error.what(), "another source vocabulary");
  // Which are of no matter to what has no rows of words.
  config.initial.only = "encoder.*";
  const TrainData other = make_train_data(plain, text);
  Trainer(context_, config, other, Start::kFresh);

  io::Container sided = base_;
  sided.blobs["tokenizer.source"] = other.tokenizers.source->serialize();
  io::write_model(folder_ / "sided.safetensors", sided);
  config = config_from(folder_ / "sided.safetensors");
  config.tokenizer.shared = true;
  expect_contains(refusal(config), "tokenizer.shared is true");
}

TEST_P(InitialWeights, RefuseNumbersThatAreNotFinite) {
  io::Container bad = base_;
  bad.tensors = {};
  for (const auto& [name, tensor] : base_.tensors) {
    io::HostTensor copy = tensor;
    if (name == "output.bias") copy.values<float>()[1] = std::numeric_limits<float>::quiet_NaN();
    bad.tensors.add(name, copy);
  }
  io::write_model(folder_ / "bad.safetensors", bad);
  expect_contains(refusal(config_from(folder_ / "bad.safetensors"), ErrorCode::kFormat),
                  "output.bias holds values that are not finite");
}

TEST_P(InitialWeights, EmbeddingsOfWordsThatAFileHas) {
  TrainConfig config = config_from("");
  config.model.embedding = 3;
  config.loop.max_steps = 3;
  config.optimizer.freeze = "source_embedding.*";
  config.output.directory = folder_ / "drawn";
  Trainer drawn = start(config);
  config.output.directory = folder_ / "run";
  config.initial.source_embeddings =
      folder_.write("source.vec", "3 3\n2 1 2 3\nx 4 5 6\n0 7 8 9\n").native();
  config.initial.target_embeddings = folder_.write("target.txt", "5 -1 -2 -3.5\n").native();
  auto trainer = std::make_unique<Trainer>(context_, config, reversal_data(config), Start::kFresh);
  EXPECT_EQ(
      trainer->start_notes(),
      (std::vector<std::string>{"source_embedding.weight: 2 of 6 words (33.3 %) start from '" +
                                    config.initial.source_embeddings + "', which has 3",
                                "target_embedding.weight: 1 of 6 words (16.7 %) start from '" +
                                    config.initial.target_embeddings + "', which has 1"}));
  const Tokenizers& tokenizers = trainer->data().tokenizers;
  const auto with = [&](std::vector<float> rows, const data::Tokenizer& tokenizer,
                        std::string_view word, const std::vector<float>& vector) {
    std::copy(vector.begin(), vector.end(), rows.begin() + 3 * tokenizer.encode(word)[0]);
    return rows;
  };
  std::vector<float> source = with(values(drawn, 0), *tokenizers.source, "2", {1, 2, 3});
  source = with(source, *tokenizers.source, "0", {7, 8, 9});
  EXPECT_EQ(values(*trainer, 0), source);
  EXPECT_EQ(values(*trainer, 1), with(values(drawn, 1), *tokenizers.target, "5", {-1, -2, -3.5f}));
  for (layers::ParameterId id = 2; id < trainer->model().parameters().specs().size(); ++id) {
    EXPECT_EQ(values(*trainer, id), values(drawn, id));
  }

  // Frozen, and read no more.
  trainer->run();
  const std::vector<float> target = values(*trainer, 1);
  trainer.reset();
  std::filesystem::remove(config.initial.source_embeddings);
  config.initial = {};
  Trainer resumed = start(config);
  EXPECT_EQ(values(resumed, 0), source);
  EXPECT_EQ(values(resumed, 1), target);
  EXPECT_TRUE(resumed.start_notes().empty());
}

TEST_P(InitialWeights, RefuseWordVectorsOfNoUse) {
  TrainConfig config = config_from("");
  config.initial.target_embeddings = folder_.write("a.txt", "5 1 2\n").native();
  expect_contains(refusal(config, ErrorCode::kFormat),
                  "a.txt' line 1: 2 numbers follow the word, but embeddings are 12 wide");
  config.model.embedding = 2;
  folder_.write("a.txt", "x 1 2\ny 1 2\n");
  expect_contains(refusal(config), "none of the 2 words of '");
  folder_.write("a.txt", "5 1 2\n");
  config.initial.from = base().native();
  config.initial.only = "*_embedding.*";
  config.model.embedding = 12;
  expect_contains(refusal(config),
                  "model.target_embeddings_from and training.init_from both give "
                  "target_embedding.weight");
}

INSTANTIATE_TEST_SUITE_P(Devices, InitialWeights, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::training
