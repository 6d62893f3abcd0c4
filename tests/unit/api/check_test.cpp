#include "sluice/check.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "io/safetensors.h"
#include "unit/api/trained_models.h"

namespace sluice {
namespace {

using testing::error_of;
using Words = std::vector<std::string>;

class CheckTest : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    train("seq2seq", "tsv", "a b c\tc b a\nb c\tc b\na\ta\nc a b\tb a c\n", "embedding = 5\n");
    train("text", "text", "a b c\nb c\na\nc a b a\n",
          "kind = \"language_model\"\nembedding = 5\nlayers = 3\n");
    train("tags", "conll", "a X\nb Y\n\nc X\na X\nb Y\n\n", "kind = \"tagger\"\nembedding = 5\n");
    train("classes", "table", "text,label\na b,x\nc,y\nb b c,x\nc a,y\n",
          "kind = \"classifier\"\nembedding = 5\nlayers = 2\ncell = \"gru\"\n");
    std::vector<float> frames(24);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      frames[i] = std::sin(static_cast<float>(i));
    }
    folder_->write("frames.npy", testing::npy_file({12, 2}, frames));
    train("features", "[training]\nmax_steps = 5\n[data]\nfeatures = \"" + at("frames.npy") +
                          "\"\ntargets = \"" + at("frames.npy") +
                          "\"\n[model]\nkind = \"features\"\nhidden = 6\nlayers = 2\n");
  }

  static CheckInputs inputs_for(const std::string& name) {
    CheckInputs inputs;
    if (name == "tags") {
      inputs.sentences = {{"a", "b"}, {"c"}, {"b", "a", "c", "b"}};
    } else if (name == "features") {
      std::mt19937 engine(std::random_device{}());
      std::uniform_real_distribution<float> draw(-1, 1);
      for (const std::size_t time : {3, 7, 1}) {
        Frames frames{2, std::vector<float>(2 * time)};
        for (float& value : frames.values) value = draw(engine);
        inputs.sequences.push_back(std::move(frames));
      }
    } else {
      inputs.texts = {"a b", "c", "b c a b"};
    }
    return inputs;
  }
  static bool on_gpu() { return std::string_view(GetParam()) == "cuda"; }
  CheckSide side() { return {.placement = placement()}; }
  Checker load(const std::string& name) { return Checker::load(checkpoint(name), side()); }

  static Words names(const CheckReport& report) {
    Words found;
    for (const LayerCheck& layer : report.layers) found.push_back(layer.name);
    return found;
  }
  static constexpr const char* kModels[] = {"seq2seq", "text", "tags", "classes", "features"};
};

TEST_P(CheckTest, AModelIsIdenticalToItself) {
  for (const char* name : kModels) {
    const CheckReport report = load(name).compare(side(), inputs_for(name));
    EXPECT_TRUE(report.agrees());
    EXPECT_EQ(report.inputs, 3);
    EXPECT_TRUE(report.not_compared.empty());
    ASSERT_FALSE(report.layers.empty());
    for (const LayerCheck& layer : report.layers) {
      EXPECT_EQ(layer.largest, 0) << name << " " << layer.name;
      EXPECT_GT(layer.values, 0) << name << " " << layer.name;
      EXPECT_GT(layer.scale, 0) << name << " " << layer.name;
    }
    EXPECT_NE(to_text(report).find("All numbers of"), std::string::npos) << to_text(report);
    EXPECT_NE(to_text(report).find("Both sides ran the same implementations"), std::string::npos)
        << to_text(report);
  }
}

TEST_P(CheckTest, LayersComeInTheOrderOfTheData) {
  const auto of = [&](const char* name) {
    return names(load(name).compare(side(), inputs_for(name)));
  };
  EXPECT_EQ(of("text"), (Words{"embedding", "recurrent.l0", "recurrent.l0.h_n", "recurrent.l0.c_n",
                               "recurrent.l1", "recurrent.l1.h_n", "recurrent.l1.c_n",
                               "recurrent.l2", "recurrent.l2.h_n", "recurrent.l2.c_n", "output"}));
  EXPECT_EQ(of("classes"),
            (Words{"embedding", "stack.l0", "stack.l0.h_n", "stack.l0.h_n_reverse", "stack.l1",
                   "stack.l1.h_n", "stack.l1.h_n_reverse", "pooling", "output"}));
  EXPECT_EQ(of("seq2seq").front(), "source_embedding");
  EXPECT_EQ(of("seq2seq").back(), "output");
}

TEST_P(CheckTest, OtherImplementationsAgree) {
  const std::string other = on_gpu() ? "baseline" : "portable";
  for (const char* name : kModels) {
    const CheckReport report =
        load(name).compare(other_side(side(), "implementation=" + other), inputs_for(name));
    EXPECT_TRUE(report.agrees()) << to_text(report);
    EXPECT_NE(report.reference.find("=" + other), std::string::npos) << report.reference;
    EXPECT_EQ(to_text(report).find("Both sides ran the same"), std::string::npos);
  }
}

TEST_P(CheckTest, LowerPrecisionDiffersUnlessItIsExpected) {
  const CheckInputs inputs = inputs_for("features");
  Checker checker = load("features");
  const CheckSide low = other_side(side(), on_gpu() ? "precision=bfloat16" : "precision=int8");
  EXPECT_TRUE(checker.compare(low, inputs).agrees());
  const CheckReport strict = checker.compare(low, inputs, 1e-6);
  ASSERT_FALSE(strict.agrees());
  EXPECT_EQ(strict.first_to_differ()->name, on_gpu() ? "input" : "stack.l0");
  EXPECT_EQ(strict.first_to_differ()->tolerance, 1e-6);
}

TEST_P(CheckTest, NamesWhatWasPlantedInARecording) {
  const CheckInputs inputs = inputs_for("features");
  Checker checker = load("features");
  const std::string recorded = at("recorded.safetensors"), planted = at("planted.safetensors");
  checker.record(recorded, inputs);
  const CheckReport same = checker.compare(recorded, inputs);
  EXPECT_TRUE(same.agrees());
  EXPECT_TRUE(same.not_compared.empty());

  const auto file = io::SafetensorsFile::open(recorded);
  for (const char* layer : {"stack.l0", "stack.l1", "output", "stack.l1.h_n_reverse"}) {
    io::SafetensorsWriter writer;
    std::vector<io::HostTensor> tensors;
    tensors.reserve(file.tensors().size());
    // Step 2 of row 1, the longest; of states there is one step.
    const bool is_state = std::string_view(layer).find(".h_n") != std::string_view::npos;
    const std::int64_t step = is_state ? 0 : 2, row = 1, unit = 1;
    for (const io::SafetensorsEntry& entry : file.tensors()) {
      io::HostTensor& tensor = tensors.emplace_back(file.read(entry.name));
      if (entry.name == layer) {
        const std::int64_t width = tensor.shape[2];
        tensor.values<float>()[static_cast<std::size_t>((step * 3 + row) * width + unit)] += 0.5f;
      }
      writer.add(entry.name, tensor.dtype, tensor.shape, tensor.data);
    }
    writer.write(planted);
    const CheckReport report = checker.compare(planted, inputs);
    ASSERT_NE(report.first_to_differ(), nullptr) << layer;
    EXPECT_EQ(report.first_to_differ()->name, layer);
    EXPECT_EQ(std::ranges::count_if(report.layers, &LayerCheck::differs), 1);
    const LayerPlace& at = *report.first_to_differ()->first;
    EXPECT_EQ(at.step, step);
    EXPECT_EQ(at.row, row);
    EXPECT_EQ(at.unit, unit);
    EXPECT_NEAR(at.reference - at.value, 0.5, 1e-6);
    const auto json = nlohmann::json::parse(to_json(report));
    EXPECT_EQ(json["first_to_differ"], layer);
    EXPECT_FALSE(json["agrees"]);
    EXPECT_EQ(json["layers"].size(), report.layers.size());
    EXPECT_NE(to_text(report).find(std::string("The first layer that differs is ") + layer +
                                   ": at step " + std::to_string(step) + " of row 1, unit 1 is "),
              std::string::npos)
        << to_text(report);
  }
}

// Lower layers are run apart from the whole stack, whose final states say whether that is the same.
TEST_P(CheckTest, OutputsOfLowerLayersEndInTheStatesOfTheWholeRun) {
  const std::string path = at("whole.safetensors");
  load("text").record(path, inputs_for("text"));
  const auto file = io::SafetensorsFile::open(path);
  const io::HostTensor lengths = file.read("input.target_lengths");
  for (const std::string layer : {"recurrent.l0", "recurrent.l1", "recurrent.l2"}) {
    const io::HostTensor y = file.read(layer), h = file.read(layer + ".h_n");
    const std::int64_t rows = y.shape[1], width = y.shape[2];
    ASSERT_EQ(h.shape, (io::Shape{1, rows, width}));
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t last = lengths.values<std::int32_t>()[static_cast<std::size_t>(row)] - 1;
      for (std::int64_t unit = 0; unit < width; ++unit) {
        EXPECT_EQ(y.values<float>()[static_cast<std::size_t>((last * rows + row) * width + unit)],
                  h.values<float>()[static_cast<std::size_t>(row * width + unit)])
            << layer << " row " << row << " unit " << unit;
      }
    }
  }
}

TEST_P(CheckTest, EveryKindIsRecordedAndReadAgain) {
  for (const char* name : kModels) {
    const std::string file = at(std::string(name) + ".safetensors");
    CheckInputs inputs = inputs_for(name);
    Checker checker = load(name);
    checker.record(file, inputs);
    const CheckReport report = checker.compare(file, inputs);
    EXPECT_TRUE(report.agrees()) << to_text(report);
    EXPECT_TRUE(report.not_compared.empty());
    if (!inputs.texts.empty()) inputs.texts[0] = "c c";
    if (!inputs.sentences.empty()) inputs.sentences[0] = {"c", "c"};
    if (!inputs.sequences.empty()) inputs.sequences[0].values[3] = 2;
    const Error error = error_of([&] { checker.compare(file, inputs); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    EXPECT_NE(std::string(error.what()).find("was recorded with other inputs"), std::string::npos)
        << error.what();
  }
}

TEST_P(CheckTest, ManyInputsGoInSeveralBatches) {
  CheckInputs inputs;
  for (int i = 0; i < 150; ++i) {
    std::string text = "a";
    for (int word = 0; word < i % 20; ++word) text += word % 3 == 0 ? " b" : " c";
    inputs.texts.push_back(text);
  }
  Checker checker = load("classes");
  const CheckReport report = checker.compare(side(), inputs);
  EXPECT_EQ(report.inputs, 150);
  // An answer for each input: two classes.
  EXPECT_EQ(report.layers.back().values, 300);
  EXPECT_TRUE(report.agrees());
}

// Attention is as wide as the longest source of its batch, so a recording has several widths.
TEST_P(CheckTest, ARecordingHoldsTheAttentionOfSeveralBatches) {
  CheckInputs inputs;
  for (int i = 0; i < 150; ++i) {
    std::string text = "a";
    for (int word = 0; word < i % 20; ++word) text += word % 3 == 0 ? " b" : " c";
    inputs.texts.push_back(text);
    inputs.targets.push_back(i % 7 == 0 ? "c" : text);
  }
  Checker checker = load("seq2seq");
  const std::string file = at("batches.safetensors");
  checker.record(file, inputs);
  const CheckReport report = checker.compare(file, inputs);
  EXPECT_TRUE(report.not_compared.empty());
  for (const LayerCheck& layer : report.layers) {
    EXPECT_EQ(layer.largest, 0) << layer.name << "\n" << to_text(report);
  }
}

TEST_P(CheckTest, RefusesInOneSentence) {
  Checker checker = load("classes");
  const auto message = [&](const CheckInputs& inputs) {
    return std::string(error_of([&] { checker.compare(side(), inputs); }).what());
  };
  EXPECT_EQ(message({}), "there is nothing to check on; give at least one input");
  EXPECT_EQ(message(inputs_for("features")),
            "a model of kind classifier is not checked on sequences of frames; leave them out");
  EXPECT_NE(std::string(error_of([&] {
                          checker.compare(other_side(side(), "implementation=fastest"),
                                          inputs_for("classes"));
                        }).what())
                .find("no implementation \"fastest\""),
            std::string::npos);
  EXPECT_EQ(error_of([&] { checker.compare(side(), inputs_for("classes"), -1); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(
      error_of([&] { checker.compare(at("none.safetensors"), inputs_for("classes")); }).code(),
      ErrorCode::kNotFound);
}

// A CPU would run a model in float32 and compare it with itself.
TEST_P(CheckTest, RefusesTf32OnACpu) {
  if (on_gpu()) GTEST_SKIP() << "a GPU computes in TF32";
  const CheckSide tf32 = other_side(side(), "precision=tf32");
  Checker checker = load("features");
  const std::string expected =
      "precision tf32 is a GPU's, not a CPU's, which computes in float32 instead; use float32";
  EXPECT_EQ(error_of([&] { checker.compare(tf32, inputs_for("features")); }).what(), expected);
  EXPECT_EQ(error_of([&] { Checker::load(checkpoint("features"), tf32); }).what(), expected);
}

/// A report of one layer, or of several of which the first differs.
CheckReport report_of(std::int64_t layers, std::optional<LayerPlace> first) {
  CheckReport report{.side = "float32 on cpu, stack=avx2", .reference = "torch.safetensors"};
  for (std::int64_t i = 0; i < layers; ++i) {
    LayerCheck layer{.name = "stack.l" + std::to_string(i), .values = 6, .largest = 1e-9};
    if (i == 0) {
      layer.beyond = first ? 1 : 0;
      layer.first = first;
    }
    report.layers.push_back(layer);
  }
  return report;
}

void expect_sentence(const CheckReport& report, const std::string& sentence) {
  const std::string text = to_text(report);
  EXPECT_TRUE(text.ends_with("\n" + sentence + "\n")) << text;
}

TEST(CheckTextTest, TellsTwoNumbersFromEachOther) {
  const float value = -0.0263721f, next = std::nextafter(value, 0.0f);
  expect_sentence(report_of(5, LayerPlace{17, 3, 2, value, next}),
                  "The first layer that differs is stack.l0: at step 17 of row 3, unit 2 is "
                  "-0.0263721, but -0.026372097 in the reference, 1.9e-09 apart. 1 of 5 layers "
                  "differs.");
}

TEST(CheckTextTest, NamesANumberThatIsNotFinite) {
  expect_sentence(report_of(2, LayerPlace{0, 0, 1, 0.5, NAN}),
                  "The first layer that differs is stack.l0: at step 0 of row 0, unit 1 is 0.5, "
                  "but nan in the reference, which is not finite. 1 of 2 layers differs.");
  expect_sentence(report_of(2, LayerPlace{0, 0, 1, INFINITY, 0.5}),
                  "The first layer that differs is stack.l0: at step 0 of row 0, unit 1 is inf, "
                  "which is not finite, but 0.5 in the reference. 1 of 2 layers differs.");
}

TEST(CheckTextTest, CountsTheLayersThatAgree) {
  expect_sentence(report_of(1, {}), "The only layer agrees within its tolerance.");
  expect_sentence(report_of(2, {}), "All 2 layers agree within their tolerance.");
}

TEST(OtherSideTest, TakesTheWordsInPlaceOfItsOwn) {
  const CheckSide side{.placement = {.device = "cpu", .precision = "int8"},
                       .implementation = "portable"};
  const CheckSide other = other_side(side, "device=cuda:1,precision=tf32");
  EXPECT_EQ(other.placement.device, "cuda:1");
  EXPECT_EQ(other.placement.precision, "tf32");
  EXPECT_EQ(other.implementation, "portable");
  EXPECT_EQ(other_side(side, "implementation=auto").implementation, "auto");
  for (const char* wrong : {"", "precision", "precision=", "device=cpu,", "precison=float32"}) {
    EXPECT_EQ(error_of([&] { other_side(side, wrong); }).code(), ErrorCode::kInvalidArgument)
        << wrong;
  }
  EXPECT_NE(std::string(error_of([&] { other_side(side, "precison=float32"); }).what())
                .find("did you mean 'precision'?"),
            std::string::npos);
  const CheckSide spaced = other_side(side, "device=cuda , implementation = auto");
  EXPECT_EQ(spaced.placement.device, "cuda");
  EXPECT_EQ(spaced.implementation, "auto");
  EXPECT_STREQ(error_of([&] { other_side(side, "precision=int8,precision=float32"); }).what(),
               "precision= stands twice in 'precision=int8,precision=float32'; leave one out");
  EXPECT_STREQ(error_of([&] { other_side(side, "device=cpu, precision="); }).what(),
               "precision= has no value in 'device=cpu, precision='; write one after the sign");
}

INSTANTIATE_TEST_SUITE_P(Devices, CheckTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice
