#include "profiling/trace_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "unit/profiling/sample_profile.h"
#include "unit/support/temporary_folder.h"

namespace sluice::profiling {
namespace {

using nlohmann::json;

class TraceFileTest : public ::testing::Test {
 protected:
  json read() const {
    std::ifstream file(path_);
    return json::parse(file);
  }
  std::vector<json> complete_events() const {
    std::vector<json> events;
    const json trace = read();
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] == "X") events.push_back(event);
    }
    return events;
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "trace.json";
};

TEST_F(TraceFileTest, HoldsWhatWasRecorded) {
  TraceFile trace(path_);
  trace.add(sample_gpu_profile(), "cuda:0 (H200)");
  EXPECT_FALSE(std::filesystem::exists(path_));  // whole or not at all
  trace.commit();
  EXPECT_EQ(trace.bytes(), std::filesystem::file_size(path_));
  EXPECT_EQ(read()["displayTimeUnit"], "ms");

  const auto events = complete_events();
  EXPECT_EQ(static_cast<std::int64_t>(events.size()), trace.events());
  std::map<std::string, int> names;
  for (const json& event : events) ++names[event["name"].get<std::string>()];
  EXPECT_EQ(names["step 6"], 1);
  EXPECT_EQ(names["lstm_forward"], 4);
  EXPECT_EQ(names["encoder.l0 forward"], 2 + 2);  // on the host and on the GPU
  EXPECT_EQ(events.front()["ts"], 0);
  EXPECT_EQ(events.front()["dur"], 10000);  // microseconds
  std::map<std::string, json> tracks;
  const json all = read();
  for (const json& event : all["traceEvents"]) {
    if (event["name"] != "thread_name") continue;
    tracks[event["args"]["name"]] = json::array({event["pid"], event["tid"]});
  }
  for (const json& event : events) {
    if (event["name"] != "copy") continue;
    EXPECT_EQ(json::array({event["pid"], event["tid"]}), tracks["stream 7"]);
  }
  EXPECT_TRUE(tracks.contains("stream 13"));
}

// What overlaps on one track lies within each other, or viewers drop it; outer events come first.
TEST_F(TraceFileTest, EventsOfATrackNest) {
  TraceFile trace(path_);
  trace.add(sample_gpu_profile(), "cuda:0");
  trace.add(sample_profile(), "cuda:0");
  trace.commit();
  std::map<std::pair<int, int>, std::vector<double>> ends;
  double last = 0;
  for (const json& event : complete_events()) {
    const double start = event["ts"], end = start + event["dur"].get<double>();
    EXPECT_GE(start, last);
    last = start;
    std::vector<double>& open = ends[{event["pid"], event["tid"]}];
    while (!open.empty() && open.back() <= start) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(end, open.back() + 1e-6) << event;
    }
    open.push_back(end);
  }
  EXPECT_GT(last, 20000);  // the second profile after the first
}

TEST_F(TraceFileTest, EscapesNames) {
  runtime::Profile profile = sample_gpu_profile();
  profile.labels[2].module = "enc\"od\\er\n\x01";
  profile.device.names[0] = "kernel<'\xff'>";  // not UTF-8
  TraceFile trace(path_);
  trace.add(profile, "a \"GPU\"");
  trace.commit();
  std::set<std::string> names;
  for (const json& event : complete_events()) names.insert(event["name"]);
  EXPECT_TRUE(names.contains("enc\"od\\er\n\x01 forward"));
  EXPECT_TRUE(names.contains("kernel<'\xef\xbf\xbd'>"));
}

TEST_F(TraceFileTest, IsOfBoundedSizeAndSaysSo) {
  runtime::Profile profile = sample_gpu_profile();
  for (int i = 0; i < 2000; ++i) {
    profile.device.work.push_back({profile.begin + i * 9000, profile.begin + i * 9000 + 8000, 0,
                                   static_cast<std::uint32_t>(i % 4), 21});
  }
  constexpr std::size_t kMost = 20000;
  TraceFile trace(path_, kMost);
  trace.add(profile, "cuda:0");
  trace.add(profile, "cuda:0");
  trace.commit();
  EXPECT_TRUE(trace.is_full());
  EXPECT_LE(std::filesystem::file_size(path_), kMost);
  EXPECT_GT(std::filesystem::file_size(path_), kMost / 2);
  const json events = read()["traceEvents"];
  EXPECT_EQ(events.back()["name"], "the trace is full");
  double last = 0;
  for (const json& event : complete_events()) last = std::max(last, event["ts"].get<double>());
  EXPECT_EQ(events.back()["ph"], "i");
  EXPECT_GE(events.back()["ts"].get<double>(), last);  // what comes first is kept
}

}  // namespace
}  // namespace sluice::profiling
