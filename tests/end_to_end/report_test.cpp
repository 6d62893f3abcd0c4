#include <algorithm>
#include <regex>

#include "end_to_end/workplace.h"
#include "unit/support/npy_file.h"

namespace sluice::end_to_end {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

/// Whether each element that is opened is closed, in order; no text may hold a bare '<'.
bool is_well_formed(const std::string& page) {
  static const std::regex tag(R"(<(/?)([a-zA-Z0-9]+)((?:\s[^<>]*?)?)(/?)>)");
  std::vector<std::string> open;
  std::size_t tags = 0;
  const std::string body = page.substr(page.find("<body>"));
  for (std::sregex_iterator it(body.begin(), body.end(), tag), end; it != end; ++it, ++tags) {
    if ((*it)[4].length() > 0) continue;
    if ((*it)[1].length() == 0) {
      open.push_back((*it)[2]);
    } else {
      if (open.empty() || open.back() != (*it)[2]) return false;
      open.pop_back();
    }
  }
  // Of the html element, opened before the body, the end alone is seen.
  return tags > 0 && static_cast<std::size_t>(std::count(body.begin(), body.end(), '<')) == tags;
}

TEST(Report, ShowsCurvesAnswersDataAndSettings) {
  const Workplace place;
  place.train({"training.keep_best=exact_match", "output.log_every=1"});
  const Outcome outcome = place.sluice({"report", "run"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "wrote run/report.html\n");
  const std::string page = place.read("run/report.html");
  for (const char* part :
       {"<title>loss</title>", "<title>learning rate</title>", "<title>gradient norm</title>",
        "<title>perplexity</title>", "<title>exact match</title>", ">validation ", ">train ",
        "training: 300 examples", "validation: 40 examples", "max_tokens = 300",
        "keep_best = &quot;exact_match&quot;", "seq2seq of "}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_GT(count(page, "<polyline"), 3u);
  // Values as the run told them: the best, the last of all validations, and the axis.
  EXPECT_TRUE(std::regex_search(
      page, std::regex("<p>Best exact match: <b>[0-9.]+%</b>, after step [0-9]+.</p>")));
  const std::string drawn = page.substr(page.find("<title>exact match</title>"));
  const std::string plot = drawn.substr(0, drawn.find("</svg>"));
  EXPECT_TRUE(std::regex_search(plot, std::regex(">validation [0-9.]+%</text>"))) << plot;
  EXPECT_TRUE(std::regex_search(plot, std::regex("text-anchor=\"end\">[0-9.]+%</text>"))) << plot;
  EXPECT_NE(plot.find(">step</text>"), std::string::npos) << plot;
  EXPECT_NE(page.find("<title>BLEU</title>"), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_EQ(count(page, "<tr><td class=\"answer\">"), 8u);
  // The first example that is validated on, as input and as reference.
  const auto [source, target] = reversals(40, 2)[0];
  EXPECT_NE(page.find("<td class=\"answer\">" + source + "</td>"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"answer\">" + target + "</td></tr>"), std::string::npos);
  EXPECT_TRUE(is_well_formed(page.substr(0, page.find("</html>"))));
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
}

TEST(Report, WritesLargeNumbersAsTheAxisDoes) {
  const Workplace place;
  place.train({"training.max_steps=2", "output.log_every=1", "training.optimizer=sgd",
               "training.learning_rate=250000", "training.clip_norm=1e-9"});
  ASSERT_EQ(place.sluice({"report", "run"}).code, 0);
  const std::string page = place.read("run/report.html");
  EXPECT_NE(page.find(">train 250k</text>"), std::string::npos) << page;
  EXPECT_EQ(page.find("e+"), std::string::npos);
}

TEST(Report, DrawsAttentionWithNamesOfTheirOwn) {
  const Workplace place;
  place.train({"training.max_epochs=12", "training.learning_rate=0.02"});
  ASSERT_EQ(place.sluice({"report", "run"}).code, 0);
  const std::string page = place.read("run/report.html");
  EXPECT_EQ(count(page, "<div class=\"attention\">"), 1u);
  EXPECT_EQ(count(page, "<title>Attention of "), 2u);
  EXPECT_EQ(count(page, "<?xml"), 0u);
  for (const char* name : {"attention-scale-1", "attention-scale-2"}) {
    EXPECT_EQ(count(page, std::string("id=\"") + name + "\""), 1u);
    EXPECT_EQ(count(page, std::string("url(#") + name + ")"), 1u);
  }
}

TEST(Report, ShowsHowALanguageModelGoesOn) {
  const Workplace place;
  place.train_texts({"training.max_steps=300"});
  ASSERT_EQ(place.sluice({"report", "text"}).code, 0);
  const std::string page = place.read("text/report.html");
  EXPECT_NE(page.find("goes on from the first half"), std::string::npos);
  EXPECT_EQ(count(page, "<tr><td class=\"answer\">"), 8u);
  EXPECT_EQ(count(page, "a square</td></tr>"), 8u);  // the second half of "225 is a square"
  EXPECT_EQ(count(page, "different\">"), 0u);
  EXPECT_EQ(page.find("<h2>Attention"), std::string::npos);
  EXPECT_TRUE(is_well_formed(page.substr(0, page.find("</html>"))));
  // Draws are those of a fixed seed.
  ASSERT_EQ(place.sluice({"report", "text", "--html", "again.html"}).code, 0);
  EXPECT_EQ(place.read("again.html"), page);
}

/// A report without its title, the settings, the model's place and the note on training examples.
std::string answers_of(const std::string& page) {
  const std::size_t begin = page.find("<h2>Answers</h2>");
  return begin == std::string::npos ? "" : page.substr(begin, page.find("<h2>Data</h2>") - begin);
}

// The same answers as without data.stream, from files to validate on and from what is held out.
TEST(Report, MakesNoFilesOfAStreamedRun) {
  const Workplace place;
  const auto report = [&](const std::string& run) {
    const Outcome outcome = place.sluice({"report", run});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return place.read(run + "/report.html");
  };
  const std::vector<std::string> held_out{"data.validation_tsv=", "data.hold_out_run=10",
                                          "data.hold_out_every=5"};
  for (const bool holds_out : {false, true}) {
    std::vector<std::string> streamed{"training.max_steps=3", "data.stream=true",
                                      "output.directory=streamed"};
    std::vector<std::string> whole{"training.max_steps=3", "output.directory=whole"};
    if (holds_out) {
      streamed.insert(streamed.end(), held_out.begin(), held_out.end());
      whole.insert(whole.end(), held_out.begin(), held_out.end());
    }
    place.train(streamed);
    place.train(whole);
    std::filesystem::remove_all(place / "streamed/prepared");
    const std::string page = report("streamed");
    EXPECT_EQ(count(page, "<tr><td class=\"answer\">"), 8u);
    EXPECT_EQ(answers_of(page), answers_of(report("whole")));
    EXPECT_NE(page.find("training: streamed"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(place / "streamed/prepared"));
    for (const char* run : {"streamed", "whole"}) std::filesystem::remove_all(place / run);
  }
  place.train_texts({"training.max_steps=3", "data.stream=true"});
  std::filesystem::remove_all(place / "text/prepared");
  EXPECT_NE(report("text").find("goes on from the first half"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(place / "text/prepared"));
}

/// Sequences whose frames are 1 or -1 for a stretch; the classes are the signs, the values half of
/// the frames.
class ReportOfFrames : public ::testing::Test {
 protected:
  ReportOfFrames() {
    std::vector<float> frames, values;
    std::vector<std::int32_t> classes;
    for (int i = 0; i < 30 * 6; ++i) {
      const bool high = i / 6 * 7 % 5 < 2 ? i % 6 < 2 : i % 6 >= 4;
      frames.push_back(high ? 1 : -1);
      values.push_back(high ? 0.5F : -0.5F);
      classes.push_back(high ? 1 : 0);
    }
    place_.write("frames.npy", sluice::testing::npy_file({30, 6, 1}, frames));
    place_.write("values.npy", sluice::testing::npy_file({30, 6, 1}, values));
    place_.write("classes.npy", sluice::testing::npy_file({30, 6}, classes));
    std::string names;
    for (int i = 0; i < 30; ++i) names += i % 5 * 7 % 5 < 2 ? "early\n" : "late\n";
    place_.write("names.txt", names);
  }
  std::string page_of(const std::vector<std::string>& settings) const {
    place_.write("frames.toml", R"([data]
features = "frames.npy"
hold_out_run = 1
hold_out_every = 5
[model]
kind = "features"
hidden = 8
dropout = 0.0
[training]
learning_rate = 0.05
max_epochs = 60
[output]
directory = "frames"
)");
    std::filesystem::remove_all(place_ / "frames");
    std::vector<std::string> arguments{"train", "frames.toml", "--quiet"};
    for (const std::string& set : settings) arguments.insert(arguments.end(), {"--set", set});
    const Outcome trained = place_.sluice(arguments);
    EXPECT_EQ(trained.code, 0) << trained.err;
    const Outcome outcome = place_.sluice({"report", "frames"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::string page = place_.read("frames/report.html");
    EXPECT_TRUE(is_well_formed(page.substr(0, page.find("</html>"))));
    return page;
  }
  Workplace place_;
};

TEST_F(ReportOfFrames, ShowsClassesOfFrames) {
  const std::string page = page_of({"data.targets=classes.npy", "model.target=classes"});
  EXPECT_EQ(count(page, "<tr><td class=\"answer\">"), 6u);
  EXPECT_NE(page.find("&#39;frames.npy&#39; sequence 4: 6 frames"), std::string::npos) << page;
  // All 36 frames held out are right, as this is learnt.
  EXPECT_EQ(
      count(page, "<td class=\"answer\">0 x4 1 x2</td><td class=\"answer\">0 x4 1 x2</td>") +
          count(page, "<td class=\"answer\">1 x2 0 x4</td><td class=\"answer\">1 x2 0 x4</td>"),
      6u);
  EXPECT_NE(page.find("<td class=\"right\">24</td><td>0</td>"), std::string::npos);
  EXPECT_NE(page.find("<td>0</td><td class=\"right\">12</td>"), std::string::npos);
}

TEST_F(ReportOfFrames, ShowsValuesAndClassesOfSequences) {
  const std::string values = page_of({"data.targets=values.npy"});
  EXPECT_EQ(count(values, "<tr><td class=\"answer\">"), 6u);
  EXPECT_GE(count(values, "<td class=\"answer\">-0.5; -0.5; -0.5; -0.5; 0.5; 0.5</td></tr>"), 1u);
  EXPECT_EQ(count(values, "different\">"), 0u);
  EXPECT_EQ(values.find("<h2>Confusion"), std::string::npos);

  const std::string names =
      page_of({"data.targets=names.txt", "model.target=classes", "model.pooling=mean",
               "data.hold_out_run=5", "data.hold_out_every=6"});
  EXPECT_EQ(count(names, "<tr><td class=\"answer\">"), 5u);
  EXPECT_EQ(count(names, ">early</td></tr>") + count(names, ">late</td></tr>"), 5u);
  EXPECT_NE(names.find("<h2>Confusion"), std::string::npos);
}

// The files are others by now.
TEST_F(ReportOfFrames, SaysThatExamplesAreOfAnotherWidth) {
  page_of({"data.targets=values.npy", "training.max_epochs=1"});
  place_.write("frames.npy", sluice::testing::npy_file({30, 6, 2}, std::vector<float>(30 * 6 * 2)));
  ASSERT_EQ(place_.sluice({"report", "frames"}).code, 0);
  const std::string page = place_.read("frames/report.html");
  EXPECT_NE(page.find("The examples could not be read: &#39;frames.npy&#39;"), std::string::npos);
  EXPECT_NE(page.find("its frames have 2 features, but the model was trained on frames of 1"),
            std::string::npos)
      << page;
}

TEST(Report, SaysWhatIsMissing) {
  const Workplace place;
  place.train({"training.max_steps=3", "output.log_every=1"});
  std::filesystem::remove(place / "train.tsv");
  ASSERT_EQ(place.sluice({"report", "run", "--html", "page.html"}).code, 0);
  const std::string page = place.read("page.html");
  EXPECT_NE(page.find("The examples could not be read: "), std::string::npos);
  EXPECT_NE(page.find("train.tsv"), std::string::npos);
  EXPECT_NE(page.find("<polyline"), std::string::npos);
  // A share that is known once stands between none and all.
  EXPECT_NE(page.find(">0%</text>"), std::string::npos);
  EXPECT_NE(page.find(">100%</text>"), std::string::npos);

  place.train({"training.max_steps=1", "data.validation_tsv=", "data.tsv=valid.tsv",
               "output.directory=bare"});
  ASSERT_EQ(place.sluice({"report", "bare"}).code, 0);
  EXPECT_NE(place.read("bare/report.html").find("There is none: the run was shorter than"),
            std::string::npos);

  place.expect_error({"report", "nowhere"}, {"'nowhere' holds neither best/ nor last/"});
  std::filesystem::create_directories(place / "cv/fold-1/best");
  for (const char* command : {"report", "info"}) {
    place.expect_error({command, "cv"}, {"'cv' holds the folds", "such as 'cv/fold-1'"});
  }
  std::filesystem::path events;
  for (const std::string& name : place.files()) {
    if (name.find("tfevents") != std::string::npos) events = name;
  }
  std::string bytes = place.read(events);
  bytes[bytes.size() / 2] ^= 1;
  place.write(events, bytes);
  place.expect_error({"report", "run"}, {"tfevents", "checksum at byte"});
  std::filesystem::remove_all(place / "run/tensorboard");
  place.expect_error({"report", "run"}, {"no event files in 'run/tensorboard'"});
}

}  // namespace
}  // namespace sluice::end_to_end
