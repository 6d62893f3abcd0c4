#include "decoding/stream_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "decoding/sampling.h"
#include "io/safetensors.h"
#include "kernels/sampling/sampling.h"
#include "models/seq2seq_decoding.h"
#include "sluice/error.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::decoding {
namespace {

using Ids = std::vector<std::int32_t>;

/// A model of random weights on one device, with two encoded inputs.
class Place {
 public:
  static constexpr std::int64_t kSamples = 3;

  explicit Place(const char* device, std::uint64_t weights = 4)
      : device_(runtime::open_device(device)), context_(*device_), model_(config()) {
    model_.parameters().allocate(context_, DType::kFloat32, false);
    model_.parameters().initialize(context_, weights);
    auto host = context_.download<float>(model_.parameters().values());
    for (float& value : host) value *= 6;  // so that samples differ from input to input
    context_.upload<float>(model_.parameters().values(), host);
    decoding_ = std::make_unique<models::Seq2SeqDecoding>(
        context_, model_, models::Seq2SeqDecoding::Capacity{2, 4, 2 * kSamples});
    source_ = put({5, 7, 9, 4, 11, 0, 6, 0}, {4, 2});
    lengths_ = put({4, 2}, {2});
    decoding_->encode(context_, source_, lengths_);
  }

  /// `length` tokens more of each sample, from the beginning or from where a state stands.
  struct Drawn {
    std::vector<std::vector<Hypothesis>> samples;
    StreamState state;
  };
  Drawn draw(std::int64_t length, const StreamState* from = nullptr) {
    return draw(options(length), from);
  }
  Drawn draw(const SamplingOptions& options, const StreamState* from = nullptr) {
    Sampling sampling(context_, *decoding_, options, {2, 4});
    const SearchResults results = from == nullptr ? sampling.run(context_, Ids{4, 2}, Ids{8, 3})
                                                  : sampling.resume(context_, Ids{4, 2}, *from);
    return {fetch(context_, results), sampling.stream_state(context_)};
  }

  static SamplingOptions options(std::int64_t length) {
    SamplingOptions options;
    options.samples = kSamples;
    options.seed = 77;
    options.force_end = false;
    options.min_length = std::min<std::int64_t>(length, 3);
    options.max_length = options.max_length_offset = length;
    options.max_length_factor = 0;
    return options;
  }
  std::string identity() const { return identity_of(context_, model_); }
  const runtime::Context& context() const { return context_; }
  models::Seq2SeqDecoding& decoding() { return *decoding_; }

 private:
  static models::Seq2SeqConfig config() {
    models::Seq2SeqConfig config;
    config.source_vocabulary = config.target_vocabulary = 19;
    config.embedding = 7;
    config.hidden = 10;
    config.decoder_layers = 2;
    return config;
  }
  Tensor put(const Ids& values, const runtime::Shape& shape) {
    buffers_.emplace_back(*device_, values.size() * sizeof(std::int32_t));
    const Tensor tensor = buffers_.back().tensor(DType::kInt32, shape);
    context_.upload<std::int32_t>(tensor, values);
    return tensor;
  }

  std::unique_ptr<runtime::Device> device_;
  runtime::Context context_;
  models::Seq2Seq model_;
  std::vector<runtime::Buffer> buffers_;
  std::unique_ptr<models::Seq2SeqDecoding> decoding_;
  Tensor source_, lengths_;
};

void append(Place::Drawn& whole, const Place::Drawn& more) {
  for (std::size_t i = 0; i < whole.samples.size(); ++i) {
    for (std::size_t j = 0; j < whole.samples[i].size(); ++j) {
      Hypothesis& sample = whole.samples[i][j];
      const Hypothesis& rest = more.samples[i].at(j);
      sample.tokens.insert(sample.tokens.end(), rest.tokens.begin(), rest.tokens.end());
      sample.score = rest.score;
      sample.ended = rest.ended;
    }
  }
}

std::vector<std::byte> bytes_of(const StreamState& state) {
  std::vector<std::byte> all;
  for (const auto& [name, tensor] : state.model) {
    all.insert(all.end(), tensor.data.begin(), tensor.data.end());
  }
  return all;
}

class StreamStateOn : public ::testing::TestWithParam<const char*> {};

// Of long stretches most steps are captured; one that is looked at after each step captures none.
TEST_P(StreamStateOn, LongStretchesEqualThoseStepByStep) {
  Place place(GetParam());
  SamplingOptions options = Place::options(45);
  options.min_length = 40;
  options.poll_every = 1;
  const Place::Drawn expected = place.draw(options);
  for (const std::int64_t every : {8, 100}) {
    options.poll_every = every;
    const Place::Drawn found = place.draw(options);
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        EXPECT_GE(found.samples[i].at(j).tokens.size(), 40u);
        EXPECT_EQ(found.samples[i][j].tokens, expected.samples[i].at(j).tokens);
        EXPECT_EQ(found.samples[i][j].score, expected.samples[i][j].score);
      }
    }
    EXPECT_EQ(found.state.status, expected.state.status);
    EXPECT_EQ(bytes_of(found.state), bytes_of(expected.state));
  }
}

// On the cpu, through a file on the other device, and on the cpu again. The test device runs the
// same leaves, so all is the same to the bit; a GPU's logits may round to other draws, but what has
// been drawn stays, and it goes on.
TEST_P(StreamStateOn, MovesToAnotherDeviceAndBack) {
  const sluice::testing::TemporaryFolder folder;
  Place home("cpu"), away(GetParam());
  const Place::Drawn expected = home.draw(12);
  int ended = 0;
  for (const auto& samples : expected.samples) {
    for (const Hypothesis& sample : samples) ended += sample.ended ? 1 : 0;
  }
  EXPECT_GT(ended, 0);
  EXPECT_LT(ended, 6);  // or the case would not show both

  Place::Drawn found = home.draw(5);
  save_stream(folder / "a.state", found.state, home.identity());
  const StreamState there = load_stream(folder / "a.state", away.identity());
  const Place::Drawn second = away.draw(4, &there);
  EXPECT_EQ(second.state.steps, 9);
  save_stream(folder / "b.state", second.state, away.identity());
  const StreamState back = load_stream(folder / "b.state", home.identity());
  const Place::Drawn third = home.draw(3, &back);
  append(found, second);
  append(found, third);
  EXPECT_EQ(third.state.steps, 12);
  if (std::string(GetParam()) == "cuda") return;
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < Place::kSamples; ++j) {
      EXPECT_EQ(found.samples[i][j].tokens, expected.samples[i][j].tokens);
      EXPECT_EQ(found.samples[i][j].score, expected.samples[i][j].score);
      EXPECT_EQ(found.samples[i][j].ended, expected.samples[i][j].ended);
    }
  }
  EXPECT_EQ(third.state.tokens, expected.state.tokens);
  EXPECT_EQ(third.state.status, expected.state.status);
  EXPECT_EQ(third.state.scores, expected.state.scores);
  EXPECT_EQ(bytes_of(third.state), bytes_of(expected.state));
}

INSTANTIATE_TEST_SUITE_P(Devices, StreamStateOn, testing::devices(), testing::device_name);

TEST(StreamState, IsOfTheModelItCameFrom) {
  const sluice::testing::TemporaryFolder folder;
  Place place("cpu"), other("cpu", 5);
  EXPECT_NE(place.identity(), other.identity());
  EXPECT_EQ(place.identity(), Place("test").identity());
  save_stream(folder / "state", place.draw(3).state, place.identity());
  try {
    load_stream(folder / "state", other.identity());
    FAIL() << "the state of another model was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    EXPECT_NE(std::string(error.what()).find(place.identity()), std::string::npos) << error.what();
  }
}

TEST(StreamState, ThatDoesNotFitIsRefused) {
  Place place("cpu");
  const StreamState good = place.draw(3).state;
  const auto said = [&](auto&& damage) {
    StreamState state = good;
    damage(state);
    return testing::message_of([&] { place.draw(2, &state); });
  };
  const auto replaced = [&](StreamState& state, const char* name, io::HostTensor tensor) {
    io::TensorTable table;
    for (const auto& [own, value] : good.model) table.add(own, own == name ? tensor : value);
    state.model = table;
  };
  EXPECT_EQ(said([](StreamState&) {}), "");
  EXPECT_NE(said([](StreamState& s) { s.seed = 1; }).find("seed 77"), std::string::npos);
  EXPECT_NE(said([](StreamState& s) { s.samples = 2; }).find("2 samples"), std::string::npos);
  EXPECT_NE(said([](StreamState& s) { s.input_ids = {1}; }).find("1 inputs"), std::string::npos);
  EXPECT_NE(said([](StreamState& s) { s.tokens[2] = 19; }).find("token 19"), std::string::npos);
  EXPECT_NE(said([](StreamState& s) { s.scores.pop_back(); }).find("6 rows"), std::string::npos);
  EXPECT_NE(said([&](StreamState& s) {
              replaced(s, "h", io::HostTensor::make(DType::kFloat32, {2, 6, 9}));
            }).find("'h' has shape [2, 6, 9], but this model's has [2, 6, 10]"),
            std::string::npos);
  EXPECT_NE(said([&](StreamState& s) {
              replaced(s, "c", io::HostTensor::make(DType::kFloat64, {2, 6, 10}));
            }).find("'c' is float64 instead of float32"),
            std::string::npos);
  EXPECT_NE(said([](StreamState& s) { s.model = {}; }).find("0 tensors"), std::string::npos);
}

TEST(StreamState, DamagedFilesAreRefused) {
  const sluice::testing::TemporaryFolder folder;
  Place place("cpu");
  const StreamState good = place.draw(3).state;
  const auto refused = [&](const StreamState& state) -> std::string {
    save_stream(folder / "state", state, "m");
    try {
      load_stream(folder / "state", "m");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFormat);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused(good), "");
  StreamState bad = good;
  bad.status[1] = 0;
  EXPECT_NE(refused(bad).find("status of row 1"), std::string::npos);
  bad = good;
  bad.scores[5] = std::nan("");
  EXPECT_NE(refused(bad).find("score of row 5"), std::string::npos);
  bad = good;
  bad.tokens[0] = -1;
  EXPECT_NE(refused(bad).find("token of row 0"), std::string::npos);
  bad = good;
  bad.samples = 4;
  EXPECT_NE(refused(bad).find("'tokens' has shape [6]"), std::string::npos) << refused(bad);
  bad = good;
  bad.samples = std::int64_t{1} << 60;
  EXPECT_NE(refused(bad).find("damaged: it states 1152921504606846976 samples"), std::string::npos)
      << refused(bad);
  io::SafetensorsWriter writer;
  writer.set_metadata("sluice_container", "1");
  writer.set_metadata("model_revision", "1");
  writer.set_metadata("sluice_kind", "stream_state");
  writer.set_metadata("stream", "{\"seed\": -1}");
  writer.write(folder / "state");
  EXPECT_THROW(load_stream(folder / "state", "m"), Error);
}

TEST(StreamState, SamplesThatHadToEndHaveNone) {
  Place place("cpu");
  SamplingOptions options = Place::options(4);
  options.force_end = true;
  Sampling sampling(place.context(), place.decoding(), options, {2, 4});
  EXPECT_THROW(sampling.stream_state(place.context()), Error);
  sampling.run(place.context(), Ids{4, 2});
  EXPECT_THROW(sampling.stream_state(place.context()), Error);
}

}  // namespace
}  // namespace sluice::decoding
