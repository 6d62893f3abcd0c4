#include "training/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

TEST(TrainingState, SurvivesToTheBit) {
  TrainingState state;
  state.step = 123456789012345;
  state.position = {7, 11};
  state.learning_rate = {1.0 / 3, true, std::nextafter(0.1, 1), 2};
  state.best = {true, -std::numeric_limits<double>::denorm_min(), 99, 3};
  state.validation_due = true;
  state.train_fingerprint = ~std::uint64_t{0};
  state.validation_fingerprint = 0x8000000000000001;
  state.implementations = {"a \"b\"", "c"};
  state.tuning = {{"lstm layers=1", "portable"}, {"gru", "c"}};
  state.threads = 2;
  state.device = "cpu";
  EXPECT_EQ(parse_training_state(to_json(state), "x"), state);
}

TEST(TrainingState, RefusesDamage) {
  const std::string json = to_json(TrainingState());
  const auto refuse = [](const std::string& text) {
    const Error error = testing::error_of([&] { parse_training_state(text, "a/file"); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    EXPECT_NE(std::string(error.what()).find("'a/file'"), std::string::npos) << error.what();
  };
  refuse("");
  refuse("[1]");
  refuse(json.substr(0, json.size() / 2));
  refuse("{\"extra\":1," + json.substr(1));
  std::string mistyped = json;
  mistyped.replace(mistyped.find("\"step\":0"), 8, "\"step\":{}");
  refuse(mistyped);
}

struct CheckpointTest : ::testing::TestWithParam<const char*> {
  CheckpointTest()
      : device(runtime::open_device(GetParam())),
        context(*device),
        config(reversal_config(folder / "run")),
        data(reversal_data(config)),
        tokenizers(data.tokenizers),
        model(make_model(context, config, data)) {}

  testing::TemporaryFolder folder;
  std::unique_ptr<runtime::Device> device;
  Context context;
  TrainConfig config;
  TrainData data;
  Tokenizers tokenizers;
  std::unique_ptr<models::Model> model;
};

TEST_P(CheckpointTest, ModelReadsBackOnEitherDevice) {
  model_files::save_model(context, folder / "m", *model, tokenizers, to_toml(config));
  const auto cpu = runtime::open_device("cpu");
  const Context cpu_context(*cpu);
  for (const auto& path : {folder / "m", folder / "m" / "model.safetensors"}) {
    const LoadedModel loaded = model_files::load_model(cpu_context, path);
    EXPECT_FALSE(loaded.model->parameters().has_gradients());
    EXPECT_EQ(loaded.run, to_toml(config));
    EXPECT_EQ(loaded.tokenizers.target->serialize(), tokenizers.target->serialize());
    for (layers::ParameterId id = 0; id < model->parameters().specs().size(); ++id) {
      EXPECT_EQ(loaded.model->parameters().download<float>(cpu_context, id),
                model->parameters().download<float>(context, id));
    }
  }
}

TEST_P(CheckpointTest, RefusesWhatDoesNotFit) {
  model_files::save_model(context, folder / "m", *model, tokenizers, to_toml(config));
  const io::Container good = io::read_model(folder / "m");
  const auto refuse = [&](const io::Container& bad, std::string_view named) {
    io::write_model(folder / "bad.safetensors", bad);
    const Error error =
        testing::error_of([&] { model_files::load_model(context, folder / "bad.safetensors"); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("bad.safetensors"), std::string::npos) << error.what();
  };
  // Copies all tensors but the first, to which `change` happens.
  const auto changed = [&](auto&& change) {
    io::Container bad = good;
    bad.tensors = {};
    bool first = true;
    for (const auto& [name, tensor] : good.tensors) {
      if (std::exchange(first, false)) {
        change(bad.tensors, name, tensor);
      } else {
        bad.tensors.add(name, tensor);
      }
    }
    return bad;
  };
  refuse(changed([](auto&, const auto&, const auto&) {}), "source_embedding.weight");
  refuse(changed([](auto& tensors, const auto& name, const auto& tensor) {
           tensors.add(name + "x", tensor);
         }),
         "did you mean 'source_embedding.weightx'");
  refuse(changed([](auto& tensors, const auto& name, const auto& tensor) {
           tensors.add(name, io::HostTensor::make(io::DType::kFloat32, {3, 3}));
           tensors.add("more", tensor);
         }),
         "[3, 3]");
  refuse(changed([](auto& tensors, const auto& name, const auto& tensor) {
           tensors.add(name, tensor);
           tensors.add("more", tensor);
         }),
         "'more'");
  io::Container bad = good;
  bad.blobs.erase("tokenizer.target");
  refuse(bad, "tokenizer.target");
  bad = good;
  bad.blobs["tokenizer.source"].pop_back();
  refuse(bad, "tokenizer.source");
  bad = good;
  bad.text.replace(bad.text.find("\"hidden\":16"), 11, "\"hidden\":2048");
  refuse(bad, "shape");
  bad = good;
  bad.text.replace(bad.text.find("\"source_vocabulary\":"), 20, "\"source_vocabulary\":1");
  refuse(bad, "source vocabulary");
  bad = good;
  bad.text.replace(bad.text.find("\"cell\":\"lstm\""), 13, "\"cell\":\"rnn\"");
  refuse(bad, "model.cell");
  bad = good;
  bad.text.replace(bad.text.find("\"model\":\"seq2seq\""), 17, "\"model\":\"tree\"");
  refuse(bad, "is a model of kind 'tree'; this program knows seq2seq");
  bad.text.replace(bad.text.find("\"model\":\"tree\""), 14, "\"model\":4");
  refuse(bad, "says no kind of model");
  EXPECT_EQ(testing::error_of([&] { model_files::load_model(context, folder / "none"); }).code(),
            ErrorCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Devices, CheckpointTest, testing::devices(),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST(TrainData, ReadsHoldsOutAndShares) {
  const testing::TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += std::to_string(i) + "\tx" + std::to_string(i) + "\n";
  TrainConfig config;
  config.data.tsv = folder.write("a.tsv", lines).native();
  config.data.hold_out_run = 2;
  config.data.hold_out_every = 3;
  const TextData text = read_text_data(config.data);
  ASSERT_EQ(text.validation.size(), 4u);
  EXPECT_EQ(text.validation[0].source, "4");
  EXPECT_EQ(text.train.size(), 8u);

  config.tokenizer.kind = "characters";
  config.tokenizer.shared = true;
  const Seq2SeqData data = make_seq2seq_data(config, text);
  EXPECT_EQ(data.tokenizers.source, data.tokenizers.target);
  EXPECT_EQ(data.train.size(), 8);
  EXPECT_EQ(data.validation_report.kept, 4);

  config.data.source = "b";
  const auto code = [&] { return testing::error_of([&] { read_text_data(config.data); }).code(); };
  EXPECT_EQ(code(), ErrorCode::kInvalidArgument);  // tsv and source
  config.data.tsv.clear();
  EXPECT_EQ(code(), ErrorCode::kInvalidArgument);  // source without target
  config.data.source.clear();
  EXPECT_EQ(code(), ErrorCode::kInvalidArgument);  // nothing
  config.data.tsv = (folder / "none.tsv").native();
  EXPECT_EQ(code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace sluice::training
