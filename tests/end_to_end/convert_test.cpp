#include <filesystem>

#include "end_to_end/workplace.h"
#include "unit/interchange/fixtures.h"

namespace sluice::end_to_end {
namespace {

using interchange::fixture_path;

TEST(Convert, BringsATaggerThatCommandsTake) {
  const Workplace place;
  const std::string source = fixture_path("torch/lstm_tagger.pt").native();
  const Outcome made = place.sluice({"convert", source, "-o", "tagger", "--verify"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("found     module 'rnn': LSTM with 4 units"), std::string::npos)
      << made.out;
  EXPECT_NE(made.out.find("All 3 layers agree"), std::string::npos) << made.out;
  const Outcome tagged = place.sluice({"tag", "tagger"}, {.input = "3\n7\n\n"});
  EXPECT_EQ(tagged.code, 0) << tagged.err;
  EXPECT_NE(tagged.out.find("3\t"), std::string::npos) << tagged.out;

  const Outcome again = place.sluice({"convert", source, "-o", "tagger"});
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("tagger"), std::string::npos) << again.err;
}

TEST(Convert, WritesEveryFormatAndReadsItBack) {
  const Workplace place;
  const std::string source = fixture_path("torch/lstm_tagger.pt").native();
  ASSERT_EQ(place.sluice({"convert", source, "-o", "tagger"}).code, 0);
  const std::pair<const char*, const char*> targets[]{
      {"torch", "x.pt"},   {"torch", "x.safetensors"}, {"keras", "x.keras"},
      {"keras", "x.h5"},   {"tf1", "x.ckpt"},          {"pb", "x.pb"},
      {"savedmodel", "x"}, {"onnx", "x.onnx"}};
  for (const auto& [format, file] : targets) {
    SCOPED_TRACE(file);
    const Outcome there =
        place.sluice({"convert", "tagger", "--to", format, "-o", file, "--verify"});
    ASSERT_EQ(there.code, 0) << there.err;
    EXPECT_NE(there.out.find("Read back from the disk"), std::string::npos) << there.out;
    const Outcome back = place.sluice({"convert", file, "--verify", "--kind", "tagger"});
    EXPECT_EQ(back.code, 0) << back.err;
    EXPECT_NE(back.out.find("model     tagger"), std::string::npos) << back.out;
  }
}

TEST(Convert, WritesAndReadsCudnnsBuffer) {
  const Workplace place;
  const std::string source = fixture_path("torch/lstm_tagger.pt").native();
  const Outcome there = place.sluice({"convert", source, "--to", "cudnn", "-o", "x.npz"});
  ASSERT_EQ(there.code, 0) << there.err;
  EXPECT_NE(there.out.find("assumed   the layout of the packed buffer is that of cuDNN's"),
            std::string::npos)
      << there.out;
  EXPECT_NE(there.out.find("x.npz, x.npz.toml, x.npz.words.txt, x.npz.labels.txt: written"),
            std::string::npos)
      << there.out;
  const Outcome back =
      place.sluice({"convert", "x.npz", "--map", "x.npz.toml", "--verify", "-o", "tagger"});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_NE(back.out.find("found     'weights': an LSTM of 2 layers with"), std::string::npos)
      << back.out;
  ASSERT_EQ(place.sluice({"convert", source, "-o", "direct"}).code, 0);
  EXPECT_EQ(place.sluice({"tag", "tagger"}, {.input = "3\n7\n\n"}).out,
            place.sluice({"tag", "direct"}, {.input = "3\n7\n\n"}).out);
  const Outcome other = place.sluice({"convert", source, "--device", "gpu"});
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("gpu"), std::string::npos) << other.err;
}

TEST(Convert, ExportsTheEncoderOfASeq2seq) {
  const Workplace place;
  place.train({"training.max_epochs=1"});
  const Outcome whole = place.sluice({"convert", "run/best", "--to", "onnx", "-o", "x.onnx"});
  EXPECT_EQ(whole.code, 1);
  EXPECT_NE(whole.err.find("--subgraph encoder"), std::string::npos) << whole.err;
  const Outcome part = place.sluice(
      {"convert", "run/best", "--to", "onnx", "-o", "x.onnx", "--subgraph", "encoder", "--verify"});
  EXPECT_EQ(part.code, 0) << part.err;
  EXPECT_EQ(place.sluice({"convert", "x.onnx", "--verify"}).code, 0);
  const Outcome all =
      place.sluice({"convert", "run/best", "--to", "torch", "-o", "x.pt", "--verify"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_NE(all.out.find("Read back from the disk"), std::string::npos) << all.out;
}

}  // namespace
}  // namespace sluice::end_to_end
