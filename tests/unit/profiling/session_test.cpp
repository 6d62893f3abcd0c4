#include "profiling/session.h"

#include <gtest/gtest.h>

#include "runtime/span.h"
#include "unit/support/full_disk.h"
#include "unit/support/temporary_folder.h"

namespace sluice::profiling {
namespace {

class SessionTest : public ::testing::Test {
 protected:
  Session::Tell tell() {
    return [this](const std::string& text) { said_ += text + "\n"; };
  }
  bool was_said(const std::string& part) const { return said_.find(part) != std::string::npos; }
  void run(std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; ++step) {
      runtime::run_step(context_, "step", step,
                        [this] { const runtime::Span span(context_, "encoder", "forward"); });
    }
  }

  testing::TemporaryFolder folder_;
  std::string path_ = (folder_ / "trace.json").native();
  std::unique_ptr<runtime::Device> device_ = runtime::open_device("cpu");
  runtime::Context context_{*device_};
  std::string said_;
};

TEST_F(SessionTest, DoesNothingUnasked) {
  Session session({}, tell());
  session.attach(context_, {1, 2});
  EXPECT_EQ(context_.profiler(), nullptr);
  run(1, 3);
  session.finish();
  EXPECT_EQ(said_, "");
}

TEST_F(SessionTest, WritesWhenTheLastStepIsDone) {
  Session session({.trace = path_, .breakdown = true}, tell());
  session.attach(context_, {2, 3}, 10);  // of this run
  run(11, 12);
  EXPECT_FALSE(std::filesystem::exists(path_));
  run(13, 13);
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(was_said("steps 12 to 13 on cpu")) << said_;
  EXPECT_TRUE(was_said("encoder forward")) << said_;
  EXPECT_TRUE(was_said(path_)) << said_;
  const std::string before = said_;
  run(14, 15);
  session.finish();
  EXPECT_EQ(said_, before);
  EXPECT_EQ(context_.profiler(), nullptr);
}

TEST_F(SessionTest, WritesWhatARunThatEndsEarlyLeft) {
  Session session({.trace = path_, .breakdown = true}, tell());
  session.attach(context_, {2, 30});
  run(1, 4);
  session.finish();
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(was_said("steps 2 to 4 on cpu")) << said_;
}

TEST_F(SessionTest, SaysThatNothingWasRecorded) {
  Session session({.trace = path_, .first_step = 7, .last_step = 9}, tell());
  session.attach(context_, {1, 1});
  run(1, 6);
  session.finish();
  EXPECT_EQ(said_, "nothing was recorded: the run ended before step 7, the first of 7:9\n");
  EXPECT_EQ(folder_.count(), 0);
}

TEST_F(SessionTest, RecordsManyTurns) {
  Session session({.trace = path_, .breakdown = true}, tell(), Session::Turns::kMany);
  session.attach(context_, {1, 2});
  run(1, 2);
  run(1, 2);
  session.detach();
  session.attach(context_, {1, 2});
  run(1, 2);
  EXPECT_FALSE(std::filesystem::exists(path_));
  session.finish();
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(was_said("12 events")) << said_;
}

TEST_F(SessionTest, RecordsOnceThoughStepsAreCountedAnew) {
  Session session({.breakdown = true}, tell());
  session.attach(context_, {1, 2});
  run(1, 2);
  const std::string before = said_;
  EXPECT_NE(before, "");
  run(1, 2);
  session.finish();
  EXPECT_EQ(said_, before);
}

// A run of days is worth more than its trace.
TEST_F(SessionTest, GoesOnWithoutATraceWhereTheDiskIsFull) {
  Session session({.trace = path_, .breakdown = true}, tell(), Session::Turns::kMany);
  session.attach(context_, {1, 1});
  {
    const testing::FileSizeLimit full(1);
    EXPECT_NO_THROW(run(1, 1));
  }
  EXPECT_TRUE(was_said("encoder forward")) << said_;
  EXPECT_TRUE(was_said("there will be no trace, and the run continues without it: ")) << said_;
  EXPECT_TRUE(was_said(path_)) << said_;
  EXPECT_EQ(folder_.count(), 0);
  said_.clear();
  run(1, 1);
  EXPECT_TRUE(was_said("encoder forward")) << said_;
  session.finish();
  EXPECT_FALSE(was_said("trace")) << said_;  // once is enough
  EXPECT_EQ(folder_.count(), 0);
}

TEST_F(SessionTest, GoesOnWithoutATraceThatCantBeCompleted) {
  Session session({.trace = path_}, tell());
  session.attach(context_, {1, 1});
  std::filesystem::create_directory(path_);  // where it is to appear
  EXPECT_NO_THROW(run(1, 2));
  EXPECT_TRUE(was_said("there will be no trace")) << said_;
  EXPECT_FALSE(was_said("events")) << said_;
  const std::string before = said_;
  EXPECT_NO_THROW(session.finish());
  EXPECT_EQ(said_, before);
  EXPECT_EQ(folder_.count(), 1);
}

TEST_F(SessionTest, RefusesInTime) {
  const auto error = [&](const ProfileRequest& request) {
    return std::string(testing::error_of([&] { Session(request, tell()); }).what());
  };
  EXPECT_NE(error({.trace = "/nowhere/trace.json"}).find("/nowhere/trace.json"), std::string::npos);
  EXPECT_NE(error({.trace = folder_.path()}).find("folder"), std::string::npos);
  EXPECT_NE(error({.first_step = 1, .last_step = 2}).find("neither a trace nor a breakdown"),
            std::string::npos);
  EXPECT_NE(error({.breakdown = true, .first_step = 5, .last_step = 4}).find("5:4"),
            std::string::npos);
  Session late({.breakdown = true, .first_step = 5, .last_step = 8}, tell());
  EXPECT_NE(std::string(testing::error_of([&] {
                          late.attach(context_, {1, 1}, 8);
                        }).what())
                .find("goes on after step 8"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::profiling
