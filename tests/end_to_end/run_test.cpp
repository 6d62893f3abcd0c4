#include <cmath>

#include "end_to_end/workplace.h"
#include "io/npy.h"
#include "unit/support/npy_file.h"
#include "unit/support/zip_file.h"

namespace sluice::end_to_end {
namespace {

using sluice::testing::npy_file;

/// Frames of two numbers, and of each the running mean of their product: what a stack must remember
/// the past for.
struct Sequence {
  std::int64_t time;
  std::vector<float> frames, targets;
  std::vector<std::int32_t> classes;
};

Sequence sequence(std::int64_t time, unsigned seed) {
  Sequence s{time, {}, {}, {}};
  std::uint64_t state = seed + 1;
  const auto draw = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(state >> 40) / 8388608.0F - 1;
  };
  float mean = 0;
  for (std::int64_t t = 0; t < time; ++t) {
    const float a = draw(), b = draw();
    // Off centre and of different sizes, so that normalising shows.
    s.frames.insert(s.frames.end(), {100 + 10 * a, 0.01F * b});
    mean = 0.7F * mean + 0.3F * a;
    s.targets.push_back(mean);
    s.classes.push_back(mean > 0 ? 1 : 0);
  }
  return s;
}

constexpr const char* kTask = R"([data]
features = "train.npz"
targets = "targets.npz"
hold_out_run = 1
hold_out_every = 5
[model]
kind = "features"
hidden = 8
bidirectional = false
dropout = 0.0
[training]
learning_rate = 0.02
max_tokens = 400
max_epochs = 8
[output]
directory = "run"
)";

/// What `sluice run --targets` prints behind the name of a metric.
double measured(const Outcome& outcome, const std::string& metric) {
  const std::size_t at = outcome.out.find(metric + " ");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(at, std::string::npos) << outcome.out;
  return at == std::string::npos ? 0 : std::stod(outcome.out.substr(at + metric.size() + 1));
}

class Run : public ::testing::Test {
 protected:
  static constexpr int kSequences = 40;

  void SetUp() override {
    place_.write("task.toml", kTask);
    std::vector<sluice::testing::ZipMember> frames, targets, classes;
    for (int i = 0; i < kSequences; ++i) {
      const Sequence s = sequence(5 + i % 7, static_cast<unsigned>(i));
      const std::string name = "s" + std::to_string(i) + ".npy";
      frames.push_back({name, npy_file({s.time, 2}, s.frames), i % 2 == 0});
      targets.push_back({name, npy_file({s.time, 1}, s.targets), false});
      classes.push_back({name, npy_file({s.time}, s.classes), true});
    }
    place_.write("train.npz", sluice::testing::zip_file(frames));
    place_.write("targets.npz", sluice::testing::zip_file(targets));
    place_.write("classes.npz", sluice::testing::zip_file(classes));
  }

  io::NpyArray answers(const std::string& name) const { return io::read_npy(place_ / name); }

  Workplace place_;
};

TEST_F(Run, LearnsValuesAndAnswersFiles) {
  const Outcome trained = place_.sluice({"train", "task.toml"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("training: 32 sequences"), std::string::npos) << trained.err;
  EXPECT_EQ(trained.err.find("accuracy"), std::string::npos) << trained.err;
  const Sequence s = sequence(30, 999);
  place_.write("in.npy", npy_file({30, 2}, s.frames));
  ASSERT_EQ(place_.sluice({"run", "run/best", "in.npy", "-o", "out.npy"}).code, 0);
  const io::NpyArray out = answers("out.npy");
  // By its position, as before there was -o, it is the same; both are too many.
  ASSERT_EQ(place_.sluice({"run", "run/best", "in.npy", "again.npy"}).code, 0);
  EXPECT_EQ(place_.read("again.npy"), place_.read("out.npy"));
  EXPECT_EQ(place_.sluice({"run", "run/best", "in.npy", "a.npy", "-o", "b.npy"}).code, 2);
  EXPECT_EQ(out.shape, (std::vector<std::int64_t>{30, 1}));
  double error = 0, size = 0;
  for (std::size_t i = 0; i < out.floats.size(); ++i) {
    error += std::pow(out.floats[i] - s.targets[i], 2);
    size += std::pow(s.targets[i], 2);
  }
  EXPECT_LT(error, 0.5 * size);  // always zero would be all of it

  // In parts the answers are the same, but for the order of sums.
  ASSERT_EQ(place_.sluice({"run", "run/best", "in.npy", "parts.npy", "--part", "7"}).code, 0);
  const io::NpyArray parts = answers("parts.npy");
  ASSERT_EQ(parts.shape, out.shape);
  for (std::size_t i = 0; i < out.floats.size(); ++i) {
    EXPECT_NEAR(parts.floats[i], out.floats[i], 1e-5);
  }

  // An output that can't be is told before the input is looked at.
  place_.expect_error({"run", "run", "nowhere.npy", "nodir/out.npy"},
                      {"cannot write 'nodir/out.npy': there is no folder 'nodir'"});

  place_.write("no_folder", "");
  place_.expect_error({"run", "run", "train.npz", "no_folder"},
                      {"cannot make the folder 'no_folder': "});

  // Several sequences in an array, and a folder of arrays.
  std::vector<float> twice = s.frames;
  twice.insert(twice.end(), s.frames.begin(), s.frames.end());
  place_.write("two.npy", npy_file({2, 30, 2}, twice));
  ASSERT_EQ(place_.sluice({"run", "run/best", "two.npy", "two_out.npy"}).code, 0);
  EXPECT_EQ(answers("two_out.npy").shape, (std::vector<std::int64_t>{2, 30, 1}));
  std::filesystem::create_directory(place_ / "in");
  place_.write("in/a.npy", npy_file({30, 2}, s.frames));
  place_.write("in/b.npy", npy_file({0, 2}, std::vector<float>{}));
  ASSERT_EQ(place_.sluice({"run", "run/best", "in", "out"}).code, 0);
  const io::NpyArray of_folder = answers("out/a.npy");
  ASSERT_EQ(of_folder.floats.size(), out.floats.size());
  for (std::size_t i = 0; i < out.floats.size(); ++i) {
    EXPECT_NEAR(of_folder.floats[i], out.floats[i], 1e-6);
  }
  EXPECT_EQ(answers("out/b.npy").shape, (std::vector<std::int64_t>{0, 1}));
  ASSERT_EQ(place_.sluice({"run", "run/best", "train.npz", "all"}).code, 0);
  EXPECT_EQ(answers("all/s3.npy").shape, (std::vector<std::int64_t>{8, 1}));

  const Outcome info = place_.sluice({"info", "run/best"});
  EXPECT_NE(info.out.find("input.mean"), std::string::npos) << info.out << info.err;
}

// The mean that is wanted starts afresh with each episode, which the frames don't show.
TEST_F(Run, LearnsEpisodesWithinSequences) {
  std::vector<sluice::testing::ZipMember> targets, resets;
  for (int i = 0; i < kSequences; ++i) {
    const Sequence s = sequence(5 + i % 7, static_cast<unsigned>(i));
    std::vector<float> means;
    std::vector<std::int32_t> begins(static_cast<std::size_t>(s.time));
    float mean = 0;
    for (std::size_t t = 0; t < begins.size(); ++t) {
      begins[t] = (static_cast<int>(t) + i) % 3 == 0 ? 1 : 0;
      if (begins[t] != 0) mean = 0;
      mean = 0.7F * mean + 0.3F * (s.frames[2 * t] - 100) / 10;
      means.push_back(mean);
    }
    const std::string name = "s" + std::to_string(i) + ".npy";
    targets.push_back({name, npy_file({s.time, 1}, means), false});
    resets.push_back({name, npy_file({s.time}, begins), true});
  }
  place_.write("targets.npz", sluice::testing::zip_file(targets));
  place_.write("resets.npz", sluice::testing::zip_file(resets));
  place_.train({"data.resets=resets.npz", "training.max_epochs=20"});
  const auto loss = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"run", "run/best", "train.npz", "--targets", "targets.npz"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = place_.sluice(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return measured(outcome, "loss");
  };
  EXPECT_LT(1.5 * loss({"--resets", "resets.npz"}), loss({}));

  // Files are what the loss was of, whole and in parts.
  ASSERT_EQ(
      place_.sluice({"run", "run/best", "train.npz", "-o", "out", "--resets", "resets.npz"}).code,
      0);
  ASSERT_EQ(place_
                .sluice({"run", "run/best", "train.npz", "-o", "parts", "--resets", "resets.npz",
                         "--part", "2"})
                .code,
            0);
  const io::NpyArray whole = answers("out/s3.npy"), parts = answers("parts/s3.npy");
  ASSERT_EQ(whole.shape, (std::vector<std::int64_t>{8, 1}));
  for (std::size_t t = 0; t < 8; ++t) EXPECT_NEAR(parts.floats[t], whole.floats[t], 1e-5);
  ASSERT_EQ(place_.sluice({"run", "run/best", "train.npz", "-o", "without"}).code, 0);
  EXPECT_NE(answers("without/s3.npy").floats, whole.floats);

  place_.expect_error({"run", "run/best", "train.npz", "-o", "o", "--resets", "targets.npz"},
                      {"'targets.npz' array 's0': it holds floating-point numbers; resets are"});
  place_.expect_train_error({"data.resets=none.npz", "output.directory=other"}, {"none.npz"});
}

TEST_F(Run, GoesOnWithASequenceFromAState) {
  place_.train({"model.cell=gru", "training.max_epochs=1"});
  const Sequence s = sequence(30, 999);
  const auto frames = [&](std::int64_t begin, std::int64_t end) {
    return npy_file({end - begin, 2},
                    std::vector<float>(s.frames.begin() + 2 * begin, s.frames.begin() + 2 * end));
  };
  place_.write("in.npy", frames(0, 30));
  place_.write("a.npy", frames(0, 9));
  place_.write("b.npy", frames(9, 30));
  place_.write("none.npy", frames(9, 9));
  const auto run = [&](const std::string& in, const std::vector<std::string>& more) {
    std::vector<std::string> all{"run", "run/best", in, "out.npy"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome said = place_.sluice(all);
    EXPECT_EQ(said.code, 0) << said.err;
    return answers("out.npy").floats;
  };
  const auto whole = run("in.npy", {});
  auto parts = run("a.npy", {"--save-state", "s"});
  const std::string first_state = place_.read("s");
  EXPECT_TRUE(run("none.npy", {"--state", "s", "--save-state", "s"}).empty());
  const auto rest = run("b.npy", {"--state", "s", "--part", "4"});
  parts.insert(parts.end(), rest.begin(), rest.end());
  ASSERT_EQ(parts.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-5);
  EXPECT_NE(run("b.npy", {}), rest);
  // Links go on to lead where they did, also to what isn't there yet.
  std::filesystem::create_symlink("later.npy", place_ / "link.npy");
  std::filesystem::create_symlink("later_state", place_ / "link_state");
  ASSERT_EQ(
      place_.sluice({"run", "run/best", "a.npy", "link.npy", "--save-state", "link_state"}).code,
      0);
  EXPECT_TRUE(std::filesystem::is_symlink(place_ / "link.npy"));
  EXPECT_TRUE(std::filesystem::is_symlink(place_ / "link_state"));
  EXPECT_EQ(answers("later.npy").shape, (std::vector<std::int64_t>{9, 1}));
  EXPECT_EQ(place_.read("later_state"), first_state);
  // Devices and pipes are written straight.
  const Outcome piped =
      run_in_shell(place_.path(),
                   "sluice run run/best a.npy /dev/stdout | cat > piped.npy && mkfifo pipe && "
                   "{ timeout 60 cat pipe > piped_state & sluice run run/best a.npy /dev/null "
                   "--save-state pipe && wait; }");
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(place_.read("piped.npy"), place_.read("later.npy"));
  EXPECT_EQ(place_.read("piped_state"), first_state);
  // A state doesn't go on without the answers.
  const std::string before = place_.read("s");
  place_.expect_error({"run", "run/best", "b.npy", "no/o.npy", "--state", "s", "--save-state", "s"},
                      {"'no/o.npy"});
  EXPECT_EQ(place_.read("s"), before);

  place_.expect_error({"run", "run/best", "train.npz", "o", "--state", "s"},
                      {"one sequence", "'train.npz' holds 40 arrays"});
  place_.train({"model.bidirectional=true", "output.directory=both", "training.max_epochs=1"});
  place_.expect_error({"run", "both/best", "in.npy", "o.npy", "--save-state", "t"},
                      {"bidirectional"});
}

TEST_F(Run, LayersHaveWidthsOfTheirOwn) {
  place_.train(
      {"model.layers=2", "model.widths=12 8", "model.hard_sigmoid=true", "training.max_epochs=1"});
  const std::string info = place_.sluice({"info", "run/best"}).out;
  EXPECT_NE(info.find("widths"), std::string::npos) << info;
  const Sequence s = sequence(30, 999);
  place_.write("in.npy", npy_file({30, 2}, s.frames));
  ASSERT_EQ(place_.sluice({"run", "run/best", "in.npy", "out.npy"}).code, 0);
  const std::vector<float> whole = answers("out.npy").floats;
  const auto cut = s.frames.begin() + 2 * 9;
  place_.write("a.npy", npy_file({9, 2}, std::vector<float>(s.frames.begin(), cut)));
  place_.write("b.npy", npy_file({21, 2}, std::vector<float>(cut, s.frames.end())));
  ASSERT_EQ(place_.sluice({"run", "run/best", "a.npy", "out.npy", "--save-state", "s"}).code, 0);
  std::vector<float> parts = answers("out.npy").floats;
  ASSERT_EQ(
      place_.sluice({"run", "run/best", "b.npy", "out.npy", "--state", "s", "--part", "4"}).code,
      0);
  const std::vector<float> rest = answers("out.npy").floats;
  parts.insert(parts.end(), rest.begin(), rest.end());
  ASSERT_EQ(parts.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-5);
  place_.expect_train_error({"model.widths=12 8", "output.directory=o"},
                            {"model.widths has 2 numbers for 1 layers"});
  place_.expect_train_error({"model.widths=12 x", "output.directory=o"},
                            {"model.widths is '12 x'"});
}

TEST_F(Run, AStackWithProjectionsPutsOutWhatItProjects) {
  // Two numbers in, two out: the frames themselves, a stack of four layers in between.
  place_.train({"data.targets=train.npz", "model.layers=4", "model.projections=3,3 3,2",
                "model.output_layer=false", "model.normalize=false", "training.max_epochs=1"});
  ASSERT_EQ(place_.sluice({"run", "run/best", "train.npz", "out"}).code, 0);
  EXPECT_EQ(answers("out/s0.npy").shape, (std::vector<std::int64_t>{5, 2}));
  place_.expect_train_error({"data.targets=train.npz", "model.projections=3",
                             "model.output_layer=false", "output.directory=wide"},
                            {"must be the number of values: it is 3, for 2"});
}

TEST_F(Run, LearnsClassesOfFrames) {
  place_.train({"data.targets=classes.npz", "model.target=classes", "model.bidirectional=true",
                "training.keep_best=accuracy", "training.max_epochs=30"});
  const Sequence s = sequence(30, 77);
  place_.write("in.npy", npy_file({30, 2}, s.frames));
  ASSERT_EQ(place_.sluice({"run", "run/best", "in.npy", "out.npy"}).code, 0);
  const io::NpyArray out = answers("out.npy");
  ASSERT_EQ(out.shape, (std::vector<std::int64_t>{30, 2}));
  int right = 0;
  for (std::size_t t = 0; t < 30; ++t) {
    EXPECT_NEAR(out.floats[2 * t] + out.floats[2 * t + 1], 1, 1e-5);
    right += (out.floats[2 * t + 1] > 0.5F) == (s.classes[t] == 1) ? 1 : 0;
  }
  EXPECT_GE(right, 21);  // guessing one class is right in about 15
  place_.expect_error({"run", "run/best", "in.npy", "o.npy", "--part", "5"}, {"bidirectional"});
}

TEST_F(Run, LearnsAClassOfASequenceByItsName) {
  std::string labels;
  for (int i = 0; i < kSequences; ++i) {
    labels += sequence(5 + i % 7, static_cast<unsigned>(i)).classes.back() == 1 ? "up\n" : "down\n";
  }
  place_.write("labels.txt", labels);
  place_.train({"data.targets=labels.txt", "model.target=classes", "model.pooling=last"});
  ASSERT_EQ(place_.sluice({"run", "run/best", "train.npz", "out.npy"}).code, 0);
  EXPECT_EQ(answers("out.npy").shape, (std::vector<std::int64_t>{kSequences, 2}));
  place_.write("few.txt", "up\n");
  place_.expect_train_error(
      {"data.targets=few.txt", "model.target=classes", "model.pooling=last", "output.directory=o"},
      {"'few.txt' has 1 line for 40 sequences"});
}

TEST_F(Run, IsMeasuredOnTargets) {
  place_.train({"training.max_epochs=2"});
  ASSERT_EQ(place_.sluice({"run", "run/best", "train.npz", "out"}).code, 0);
  double error = 0;
  std::size_t frames = 0;
  for (int i = 0; i < kSequences; ++i) {
    const Sequence s = sequence(5 + i % 7, static_cast<unsigned>(i));
    const io::NpyArray out = answers("out/s" + std::to_string(i) + ".npy");
    for (std::size_t t = 0; t < s.targets.size(); ++t, ++frames) {
      error += std::pow(static_cast<double>(out.floats[t]) - s.targets[t], 2);
    }
  }
  const Outcome values =
      place_.sluice({"run", "run/best", "train.npz", "--targets", "targets.npz"});
  EXPECT_NEAR(measured(values, "loss"), error / static_cast<double>(frames), 1e-4);
  EXPECT_EQ(values.out.find("accuracy"), std::string::npos) << values.out;
  EXPECT_NE(values.out.find("# 40 sequences, "), std::string::npos) << values.out;
  place_.expect_error({"run", "run/best", "train.npz", "--targets", "classes.npz"}, {"integers"});
  place_.expect_error({"run", "run/best", "train.npz", "--targets", "none.npz"}, {"none.npz"});
  const Outcome neither = place_.sluice({"run", "run/best", "train.npz"});
  EXPECT_EQ(neither.code, 2);
  EXPECT_EQ(neither.err,
            "sluice: error: --output, or --targets, is required; see sluice run --help\n");

  // Other widths than the model's, by which quantize is judged, too.
  const auto array = [&](const std::string& name, std::int64_t width) {
    place_.write(name,
                 npy_file({4, width}, std::vector<float>(static_cast<std::size_t>(4 * width))));
  };
  array("one.npy", 1);
  array("two.npy", 2);
  array("three.npy", 3);
  const auto refuse = [&](const std::string& features, const std::string& targets,
                          const std::vector<std::string>& said) {
    place_.expect_error({"run", "run/best", features, "--targets", targets}, said);
    place_.expect_error(
        {"quantize", "run/best", "-o", "narrow", "--data", features, "--targets", targets}, said);
  };
  refuse("three.npy", "one.npy", {"'three.npy': its frames have 3 features", "frames of 2"});
  refuse("one.npy", "one.npy", {"'one.npy': its frames have 1 feature,", "frames of 2"});
  refuse("two.npy", "three.npy", {"'three.npy': its targets have 3 values", "targets of 1"});

  place_.train({"data.targets=classes.npz", "model.target=classes", "training.max_epochs=2",
                "output.directory=classes"});
  ASSERT_EQ(place_.sluice({"run", "classes/best", "train.npz", "said"}).code, 0);
  double right = 0;
  for (int i = 0; i < kSequences; ++i) {
    const Sequence s = sequence(5 + i % 7, static_cast<unsigned>(i));
    const io::NpyArray out = answers("said/s" + std::to_string(i) + ".npy");
    for (std::size_t t = 0; t < s.classes.size(); ++t) {
      right += (out.floats[2 * t + 1] > out.floats[2 * t]) == (s.classes[t] == 1) ? 1 : 0;
    }
  }
  EXPECT_NEAR(
      measured(place_.sluice({"run", "classes/best", "train.npz", "--targets", "classes.npz"}),
               "accuracy"),
      100 * right / static_cast<double>(frames), 0.00501);
}

TEST_F(Run, BadInputIsRefused) {
  const auto refuse = [&](const std::string& bytes, const std::vector<std::string>& said) {
    place_.write("bad.npy", bytes);
    place_.expect_train_error({"data.features=bad.npy"}, said);
  };
  refuse(npy_file({2, 2}, std::vector<float>{1.0F, 2.0F, 3.0F, NAN}),
         {"'bad.npy': frame 1, column 1", "is nan"});
  refuse(npy_file({2, 2}, std::vector<float>{1.0F, 2.0F, 3.0F, 4.0F}).substr(0, 140),
         {"'bad.npy'", "damaged"});
  refuse("no array", {"'bad.npy'", "not a .npy file"});
  place_.write("bad.npy", npy_file({2, 2}, std::vector<float>{1.0F, 2.0F, 3.0F, 4.0F}));
  place_.expect_train_error({"data.features=bad.npy"}, {"40 sequences", "1 with features"});
  place_.expect_train_error(
      {"data.features=bad.npy", "data.targets=bad.npy", "data.validation_features=targets.npz",
       "data.validation_targets=targets.npz", "data.hold_out_run=0", "data.hold_out_every=0"},
      {"1 feature, those to train on 2"});
  std::filesystem::create_directory(place_ / "ragged");
  place_.write("ragged/a.npy", npy_file({1, 2}, std::vector<float>{1.0F, 2.0F}));
  place_.write("ragged/b.npy", npy_file({1, 3}, std::vector<float>{1.0F, 2.0F, 3.0F}));
  std::filesystem::create_directory(place_ / "each");
  for (const std::string name : {"each/a.npy", "each/b.npy"}) {
    place_.write(name, npy_file({1, 1}, std::vector<float>{1.0F}));
  }
  for (const std::string stream : {"false", "true"}) {
    place_.expect_train_error(
        {"data.features=ragged", "data.targets=each", "data.stream=" + stream},
        {"b.npy'", "3 features", "a.npy'", "have 2"});
  }
  place_.expect_train_error({"data.targets="}, {"data.features and data.targets"});
  place_.expect_train_error({"training.keep_best=accuracy"}, {"model.target is values"});

  place_.train({"training.max_epochs=1"});
  place_.write("wide.npy", npy_file({1, 3}, std::vector<float>{1.0F, 2.0F, 3.0F}));
  place_.expect_error({"run", "run/best", "wide.npy", "o.npy"},
                      {"'wide.npy': its frames have 3 features", "trained on frames of 2"});
  place_.write("nan.npy", npy_file({1, 2}, std::vector<float>{INFINITY, 2.0F}));
  place_.expect_error({"run", "run/best", "nan.npy", "o.npy"}, {"'nan.npy': frame 0, column 0"});
  place_.expect_error({"run", "run/best", "none.npy", "o.npy"}, {"there is no file 'none.npy'"});
}

TEST_F(Run, AnswersGoToAFileIfOneIsNamed) {
  place_.train({"training.max_epochs=1"});
  const Sequence s = sequence(5, 0);
  const std::string array = npy_file({5, 2}, s.frames);
  place_.write("one.npz", sluice::testing::zip_file({{"s0.npy", array, false}}));
  place_.write("one.npy", array);
  std::filesystem::create_directory(place_ / "folder");
  place_.write("folder/s0.npy", array);
  for (const std::string input : {"one.npz", "one.npy", "folder"}) {
    const Outcome run = place_.sluice({"run", "run/best", input, input + "-out.npy"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(place_.read(input + "-out.npy"), place_.read("one.npz-out.npy"));
  }
  ASSERT_EQ(place_.sluice({"run", "run/best", "folder", "out"}).code, 0);
  EXPECT_EQ(place_.read("out/s0.npy"), place_.read("one.npz-out.npy"));
  const auto before = place_.files();
  for (const std::string input : {"one.npy", "folder"}) {
    place_.expect_error({"run", "run/best", input, input},
                        {"'" + input + "' is the input, which would be replaced"});
  }
  EXPECT_EQ(place_.read("one.npy"), array);
  EXPECT_EQ(place_.read("folder/s0.npy"), array);
  place_.expect_error({"run", "run/best", "train.npz", "out.npy"},
                      {"'train.npz' holds 40 arrays", "name a folder, not 'out.npy'"});
  EXPECT_EQ(place_.files(), before);
}

TEST_F(Run, TellsBeforeTrainingOfWhatNoBatchCanHold) {
  const auto refuse = [&](const std::vector<std::string>& overrides,
                          const std::vector<std::string>& said) {
    std::vector<std::string> all{"training.max_tokens=20"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    place_.expect_train_error(all, said);
    all.push_back("data.stream=true");
    place_.expect_train_error(all, said);
    // Nothing that was prepared is left half done.
    EXPECT_FALSE(std::filesystem::exists(place_ / "run/prepared/train.ids"));
  };
  refuse({}, {"'train.npz' array 's6'", "11 frames and 11 targets", "training.max_tokens = 20",
              "data.max_source_tokens"});
  place_.train({"training.max_tokens=20", "data.max_source_tokens=10", "training.max_epochs=1"});
  // Who measures takes whatever comes.
  const Outcome measured =
      place_.sluice({"run", "run/last", "train.npz", "--targets", "targets.npz"});
  EXPECT_EQ(measured.code, 0) << measured.err;
}

TEST_F(Run, StreamsItsSequences) { place_.expect_streams(); }

}  // namespace
}  // namespace sluice::end_to_end
