#include <gtest/gtest.h>

#include <cmath>

#include "decoding/stream_state.h"
#include "io/safetensors.h"
#include "models/classifier.h"
#include "models/features.h"
#include "models/sequence_stream.h"
#include "models/tagger.h"
#include "sluice/error.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::decoding {
namespace {

constexpr std::int64_t kTime = 11, kFeatures = 3;

models::StackConfig stack_of(const std::string& cell) {
  models::StackConfig stack;
  stack.cell = cell;
  stack.hidden = 10;
  stack.layers = 2;
  stack.bidirectional = false;
  return stack;
}

std::unique_ptr<models::Model> make_model(const std::string& kind, const std::string& cell) {
  if (kind == "tagger") {
    models::TaggerConfig config;
    config.vocabulary = 17;
    config.labels = 9;
    config.embedding = 7;
    config.hidden = 10;
    config.layers = 2;
    config.cell = cell;
    config.bidirectional = false;
    config.output = "softmax";
    EXPECT_EQ(config.refuse_parts(), "");
    return std::make_unique<models::Tagger>(config);
  }
  if (kind == "classifier") {
    models::ClassifierConfig config;
    config.vocabulary = 17;
    config.classes = 4;
    config.embedding = 7;
    config.stack = stack_of(cell);
    config.pooling = "last";
    EXPECT_EQ(config.refuse_parts(), "");
    return std::make_unique<models::Classifier>(config);
  }
  models::FeaturesConfig config;
  config.features = kFeatures;
  config.stack = stack_of(cell);
  config.outputs = 2;
  EXPECT_EQ(config.refuse_parts(), "");
  return std::make_unique<models::Features>(config);
}

const kernels::recurrent::Descriptor& architecture_of(const models::Model& model) {
  if (const auto* tagger = dynamic_cast<const models::Tagger*>(&model)) {
    return tagger->stack().architecture();
  }
  if (const auto* classifier = dynamic_cast<const models::Classifier*>(&model)) {
    return classifier->stack().architecture();
  }
  return dynamic_cast<const models::Features&>(model).stack().architecture();
}

/// A model of random weights on one device, in the middle of a sequence.
class Place {
 public:
  Place(const char* device, const std::string& kind, const std::string& cell, std::int64_t longest)
      : device_(runtime::open_device(device)), context_(*device_), model_(make_model(kind, cell)) {
    model_->parameters().allocate(context_, runtime::DType::kFloat32, false);
    model_->parameters().initialize(context_, 5);
    auto host = context_.download<float>(model_->parameters().values());
    for (float& value : host) value *= 5;  // so that what came before shows
    context_.upload<float>(model_->parameters().values(), host);
    stream_.emplace(context_, *model_, architecture_of(*model_), longest, weights_);
  }

  /// What the model says of steps begin to end of a fixed sequence; labels as numbers.
  std::vector<double> run(std::int64_t begin, std::int64_t end) {
    const bool dense = model_->kind() == models::FeaturesConfig::kKind;
    const std::int64_t time = end - begin, width = dense ? kFeatures : 1;
    const runtime::Buffer memory(*device_, static_cast<std::size_t>(time * width) * 4);
    runtime::Tensor source;
    if (dense) {
      std::vector<float> frames;
      for (std::int64_t i = begin * width; i < end * width; ++i) {
        frames.push_back(static_cast<float>(i * 7 % 11) / 5 - 1);
      }
      source = memory.tensor(runtime::DType::kFloat32, {time, 1, width});
      context_.upload<float>(source, frames);
    } else {
      std::vector<std::int32_t> tokens;
      for (std::int64_t t = begin; t < end; ++t) tokens.push_back(static_cast<int>(t * 5 % 17));
      source = memory.tensor(runtime::DType::kInt32, {time, 1});
      context_.upload<std::int32_t>(source, tokens);
    }
    const runtime::Tensor answers = stream_->run(context_, source);
    if (answers.dtype() == runtime::DType::kInt32) {
      return testing::widened(context_.download<std::int32_t>(answers));
    }
    return testing::widened(context_.download<float>(answers));
  }

  std::string identity() const { return identity_of(context_, *model_); }
  void save(const std::filesystem::path& path) const {
    save_sequence(path, {download_state(context_, stream_->state()), {0.5F, -2}}, identity());
  }
  void load(const std::filesystem::path& path) {
    const SequenceState state = load_sequence(path, identity());
    EXPECT_EQ(state.answer, (std::vector<float>{0.5F, -2}));
    upload_state(context_, stream_->state(), state.model);
  }
  void begin() { stream_->begin(context_); }
  const runtime::Context& context() const { return context_; }
  const models::SequenceStream& stream() const { return *stream_; }

 private:
  std::unique_ptr<runtime::Device> device_;
  runtime::Context context_;
  std::unique_ptr<models::Model> model_;
  runtime::PackedWeights weights_;
  std::optional<models::SequenceStream> stream_;
};

class SequenceStateOn : public ::testing::TestWithParam<const char*> {};

// On the cpu, through a file on the other device, and on the cpu again, the parts are what the
// whole is. A GPU sums in another order, and each of eleven steps adds some 1e-6 to what that errs
// by.
TEST_P(SequenceStateOn, MovesToAnotherDeviceAndBack) {
  const sluice::testing::TemporaryFolder folder;
  for (const std::string kind : {"tagger", "classifier", "features"}) {
    for (const std::string cell : {"lstm", "gru", "gru_reset_before"}) {
      SCOPED_TRACE(kind + " " + cell);
      Place home("cpu", kind, cell, kTime), away(GetParam(), kind, cell, 3);
      const std::vector<double> whole = home.run(0, kTime);
      home.begin();
      std::vector<double> found = home.run(0, 4), last = found;
      const auto append = [&](const std::vector<double>& more) {
        found.insert(found.end(), more.begin(), more.end());
        last = more;
      };
      home.save(folder / "state");
      away.run(2, 3);  // to be forgotten
      away.load(folder / "state");
      append(away.run(4, 7));
      append(away.run(7, 8));
      away.save(folder / "state");
      home.load(folder / "state");
      append(home.run(8, kTime));
      const std::vector<double>& got = kind == "classifier" ? last : found;
      ASSERT_EQ(got.size(), whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(got[i], whole[i], 1e-4);
      // Or nothing would show that a state was taken up.
      home.begin();
      EXPECT_NE(home.run(8, kTime), last);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SequenceStateOn, testing::devices(), testing::device_name);

TEST(SequenceState, ThatDoesNotFitIsRefused) {
  const sluice::testing::TemporaryFolder folder;
  Place tagger("cpu", "tagger", "lstm", 4), other("cpu", "classifier", "lstm", 4);
  tagger.save(folder / "state");
  EXPECT_THROW(load_sequence(folder / "none", tagger.identity()), Error);
  const Error error = testing::error_of([&] { load_sequence(folder / "state", other.identity()); });
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
  EXPECT_NE(std::string(error.what()).find("state of another kind of model, tagger"),
            std::string::npos);
  // A file of samples of a text is none of a sequence, and the other way round.
  EXPECT_THROW(load_stream(folder / "state", tagger.identity()), Error);
}

// Each tensor in turn, so that one that fits comes before or after the one that doesn't.
TEST(SequenceState, ThatFitsInPartChangesNothing) {
  Place place("cpu", "tagger", "lstm", 4);
  place.run(0, 3);
  const auto values = [&] {
    std::vector<std::vector<float>> all;
    for (const auto& [name, tensor] : download_state(place.context(), place.stream().state())) {
      const auto numbers = tensor.values<float>();
      all.emplace_back(numbers.begin(), numbers.end());
    }
    return all;
  };
  const auto before = values();
  ASSERT_EQ(before.size(), 2U);
  const auto refused = [&](const runtime::Shape& h, const runtime::Shape& c,
                           runtime::DType type_of_c = runtime::DType::kFloat32) -> std::string {
    io::TensorTable state;
    state.add("h", io::HostTensor::make(runtime::DType::kFloat32, h));
    state.add("c", io::HostTensor::make(type_of_c, c));
    const Error error =
        testing::error_of([&] { upload_state(place.context(), place.stream().state(), state); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    EXPECT_EQ(values(), before);
    return error.what();
  };
  const runtime::Shape fits{2, 1, 10}, narrow{2, 1, 9};
  EXPECT_NE(refused(fits, narrow).find("'c' has shape [2, 1, 9]"), std::string::npos);
  EXPECT_NE(refused(narrow, fits).find("'h' has shape [2, 1, 9]"), std::string::npos);
  EXPECT_NE(refused(fits, fits, runtime::DType::kFloat64).find("'c' is float64"),
            std::string::npos);
}

TEST(SequenceState, NumbersThatAreNotFiniteAreRefused) {
  const sluice::testing::TemporaryFolder folder;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const bool in_answer : {false, true}) {
      std::vector<float> h{1, 2, 3}, answer{-1, -2};
      (in_answer ? answer : h)[1] = bad;
      SequenceState state;
      state.answer = answer;
      state.model.add("h", io::HostTensor::copy_of<float>(h, {3}));
      save_sequence(folder / "state", state, "m");
      const Error error = testing::error_of([&] { load_sequence(folder / "state", "m"); });
      EXPECT_EQ(error.code(), ErrorCode::kFormat);
      const std::string place = in_answer ? "number 2 of 'answer'" : "number 2 of 'model.h'";
      EXPECT_NE(std::string(error.what()).find(place), std::string::npos) << error.what();
    }
  }
}

TEST(SequenceState, DamagedFilesAreRefused) {
  const sluice::testing::TemporaryFolder folder;
  for (const std::string text :
       {R"({"model": "m"})", R"({"model": "m", "answers": -1})", R"({"model": "m", "answers": 3})",
        R"({"model": "m", "answers": 4611686018427387904})", R"({"model": 3})", "nonsense"}) {
    io::SafetensorsWriter writer;
    writer.set_metadata("sluice_container", "1");
    writer.set_metadata("model_revision", "1");
    writer.set_metadata("sluice_kind", "stream_state");
    writer.set_metadata("stream", text);
    writer.write(folder / "state");
    const Error error = testing::error_of([&] { load_sequence(folder / "state", "m"); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << text << ": " << error.what();
  }
}

}  // namespace
}  // namespace sluice::decoding
