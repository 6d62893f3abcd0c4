#include <algorithm>
#include <regex>

#include "end_to_end/workplace.h"

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
  EXPECT_EQ(count(page, "<tr><td class=\"answer\">"), 8u);
  // The first example that is validated on, as input and as reference.
  const auto [source, target] = reversals(40, 2)[0];
  EXPECT_NE(page.find("<td class=\"answer\">" + source + "</td>"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"answer\">" + target + "</td></tr>"), std::string::npos);
  EXPECT_TRUE(is_well_formed(page.substr(0, page.find("</html>"))));
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
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

TEST(Report, MakesNoFilesOfAStreamedRun) {
  const Workplace place;
  place.train({"training.max_steps=3", "data.stream=true", "output.directory=streamed",
               "data.tsv=valid.tsv"});
  std::filesystem::remove_all(place / "streamed/prepared");
  ASSERT_EQ(place.sluice({"report", "streamed"}).code, 0);
  EXPECT_NE(place.read("streamed/report.html").find("data.stream is on"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(place / "streamed/prepared"));
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

  place.expect_error({"report", "nowhere"}, {"'nowhere' holds neither best/ nor last/"});
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
