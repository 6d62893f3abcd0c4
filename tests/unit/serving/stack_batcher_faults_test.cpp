#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "runtime/device.h"
#include "serving/stack_batcher.h"
#include "unit/support/message_of.h"

namespace sluice::serving {
namespace {

using Outcome = StackReply::Outcome;
using testing::message_of;
using Hook = std::function<void()>;

/// Answers each step with the sum of the sequence so far. Hooks may throw.
class FakeRuns final : public PieceRuns {
 public:
  explicit FakeRuns(const Capacity& capacity)
      : capacity_(capacity), sums_(static_cast<std::size_t>(capacity.slots)) {}

  const Capacity& capacity() const override { return capacity_; }
  std::int64_t features() const override { return 1; }
  std::vector<PieceAnswer> run(const Context&, std::span<const Piece> pieces) override {
    if (on_run) on_run();
    std::vector<PieceAnswer> answers(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      float& sum = sums_[static_cast<std::size_t>(pieces[i].slot)];
      if (pieces[i].first) sum = 0;
      for (const float value : pieces[i].frames) answers[i].values.push_back(sum += value);
    }
    return answers;
  }
  io::TensorTable state(const Context&, std::int32_t slot) override {
    if (on_state) on_state();
    io::TensorTable table;
    const std::span<const float> sum(&sums_[static_cast<std::size_t>(slot)], 1);
    table.add("sum", io::HostTensor::copy_of(sum, {1}));
    return table;
  }
  void set_state(const Context&, std::int32_t slot, const io::TensorTable& state) override {
    if (on_set_state) on_set_state();
    sums_[static_cast<std::size_t>(slot)] = state.find("sum")->values<float>()[0];
  }

  Hook on_run, on_state, on_set_state;

 private:
  Capacity capacity_;
  std::vector<float> sums_;
};

class StackBatcherFaults : public ::testing::Test {
 protected:
  StackBatcher::Ticket submit(std::uint64_t sequence, std::vector<float> frames, bool begin,
                              StackReply& reply) {
    return batcher_->submit({.sequence = sequence,
                             .begin = begin,
                             .frames = std::move(frames),
                             .reply = [&reply](StackReply given) { reply = std::move(given); }});
  }
  void run_all() {
    while (batcher_->requests() > 0) batcher_->run(context_);
  }
  void make(const StackBatcher::Limits& limits) {
    batcher_.reset();
    batcher_ = std::make_unique<StackBatcher>(runs_, limits);
  }

  std::unique_ptr<runtime::Device> device_ = runtime::open_device("test");
  Context context_{*device_};
  FakeRuns runs_{{.slots = 2, .rows = 2, .time = 1}};
  std::unique_ptr<StackBatcher> batcher_ =
      std::make_unique<StackBatcher>(runs_, StackBatcher::Limits{});
};

TEST_F(StackBatcherFaults, LongRequestsDoNotHoldUpShortOnes) {
  StackReply first, second, quick;
  submit(1, std::vector<float>(50, 1), true, first);
  submit(2, std::vector<float>(50, 2), true, second);
  for (int i = 0; i < 3; ++i) batcher_->run(context_);
  submit(0, {7}, true, quick);
  for (int i = 0; i < 3; ++i) batcher_->run(context_);
  EXPECT_EQ(quick.answer.values, std::vector<float>{7});
  run_all();
  ASSERT_EQ(first.answer.values.size(), 50U);
  EXPECT_EQ(first.answer.values.back(), 50);
  EXPECT_EQ(second.answer.values.back(), 100);
}

TEST_F(StackBatcherFaults, FailsTheRequestsOfARunThatThrows) {
  const auto error_of = [&](const Hook& hook) {
    runs_.on_run = hook;
    StackReply reply;
    submit(1, {1, 2}, true, reply);
    run_all();
    runs_.on_run = {};
    EXPECT_EQ(reply.outcome, Outcome::kFailed);
    return reply.error.value();
  };
  EXPECT_EQ(error_of([] { throw Error(ErrorCode::kDevice, "no"); }).code(), ErrorCode::kDevice);
  EXPECT_EQ(error_of([] { throw std::bad_alloc(); }).code(), ErrorCode::kOutOfMemory);
  const Error odd = error_of([] { throw std::runtime_error("odd"); });
  EXPECT_EQ(odd.code(), ErrorCode::kInternal);
  EXPECT_STREQ(odd.what(), "an unexpected exception: odd");
  EXPECT_EQ(error_of([] { throw 1; }).code(), ErrorCode::kInternal);
  StackReply next;
  submit(2, {1, 2}, true, next);
  run_all();
  EXPECT_EQ(next.answer.values, (std::vector<float>{1, 3}));
}

TEST_F(StackBatcherFaults, ALostDeviceEndsEverything) {
  StackReply replies[3];
  for (std::uint64_t i = 0; i < 3; ++i) submit(i + 1, {1, 2}, true, replies[i]);
  runs_.on_run = [] { throw Error(ErrorCode::kDeviceLost, "gone"); };
  EXPECT_EQ(message_of([&] { batcher_->run(context_); }), "gone");
  for (const StackReply& reply : replies) {
    ASSERT_EQ(reply.outcome, Outcome::kFailed);
    EXPECT_EQ(reply.error->code(), ErrorCode::kDeviceLost);
  }
  EXPECT_EQ(message_of([&] { submit(9, {1}, true, replies[0]); }), "gone");
  EXPECT_EQ(batcher_->requests(), 0);
  EXPECT_EQ(batcher_->sequences(), 0);
  EXPECT_EQ(batcher_->run(context_), 0);
}

TEST_F(StackBatcherFaults, TheDestructorAnswersWhatWaits) {
  StackReply reply;
  submit(1, {1, 2}, true, reply);
  batcher_.reset();
  ASSERT_EQ(reply.outcome, Outcome::kFailed);
  EXPECT_STREQ(reply.error->what(), "the server closes, so this request was not answered");
}

// Both sequences stay intact: one in its slot, the other one not begun.
TEST_F(StackBatcherFaults, AFailedMoveToTheHostFailsTheRequestThatNeededTheSlot) {
  StackReply first, second, third, again;
  submit(1, {1}, true, first);
  submit(2, {2}, true, second);
  run_all();
  runs_.on_state = [] { throw Error(ErrorCode::kOutOfMemory, "no memory"); };
  submit(3, {3}, true, third);
  run_all();
  ASSERT_EQ(third.outcome, Outcome::kFailed);
  EXPECT_STREQ(third.error->what(), "no memory");
  EXPECT_EQ(batcher_->sequences(), 2);
  runs_.on_state = {};
  submit(3, {3}, true, again);
  submit(1, {10}, false, first);
  submit(2, {10}, false, second);
  run_all();
  EXPECT_EQ(again.answer.values, std::vector<float>{3});
  EXPECT_EQ(first.answer.values, std::vector<float>{11});
  EXPECT_EQ(second.answer.values, std::vector<float>{12});
}

TEST_F(StackBatcherFaults, AFailedMoveToTheDeviceLeavesTheSequenceWhereItStood) {
  StackReply reply, other;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    submit(i, {1}, true, i == 1 ? reply : other);
    run_all();
  }
  runs_.on_set_state = [] { throw Error(ErrorCode::kOutOfMemory, "no memory"); };
  submit(1, {10}, false, reply);
  run_all();
  EXPECT_EQ(reply.outcome, Outcome::kFailed);
  runs_.on_set_state = {};
  submit(1, {10}, false, reply);
  run_all();
  EXPECT_EQ(reply.answer.values, std::vector<float>{11});
}

TEST_F(StackBatcherFaults, ForgetsIdleSequencesForNewOnes) {
  make({.sequences = 3, .idle = Clock::duration::zero()});
  StackReply reply;
  for (std::uint64_t i = 1; i <= 9; ++i) {
    submit(i, {1}, true, reply);
    run_all();
    EXPECT_EQ(batcher_->sequences(), 1);
  }
  EXPECT_EQ(message_of([&] { submit(1, {1}, false, reply); }),
            "there is no sequence 1 to go on with; begin it with its first request");
}

TEST_F(StackBatcherFaults, ADeadlineMayPassInTheMiddle) {
  StackReply reply, behind;
  batcher_->submit({.sequence = 1,
                    .begin = true,
                    .frames = {1, 2, 3},
                    .deadline = Clock::now() + std::chrono::milliseconds(30),
                    .reply = [&](StackReply given) { reply = std::move(given); }});
  runs_.on_run = [] { std::this_thread::sleep_for(std::chrono::milliseconds(40)); };
  submit(1, {4}, false, behind);
  run_all();
  EXPECT_EQ(reply.outcome, Outcome::kExpired);
  EXPECT_TRUE(reply.answer.values.empty());
  EXPECT_EQ(behind.outcome, Outcome::kFailed);
  EXPECT_EQ(batcher_->sequences(), 0);
}

TEST_F(StackBatcherFaults, OtherThreadsMayCancelAndSubmitWhileABatchRuns) {
  StackReply reply, other;
  const StackBatcher::Ticket ticket = submit(1, {1, 2, 3}, true, reply);
  bool is_first = true;
  runs_.on_run = [&] {
    if (!std::exchange(is_first, false)) return;
    std::jthread([&] {
      batcher_->cancel(ticket);
      submit(2, {5}, true, other);
    }).join();
  };
  batcher_->run(context_);
  batcher_->run(context_);
  EXPECT_EQ(reply.outcome, Outcome::kCancelled);
  EXPECT_EQ(other.answer.values, std::vector<float>{5});
}

}  // namespace
}  // namespace sluice::serving
