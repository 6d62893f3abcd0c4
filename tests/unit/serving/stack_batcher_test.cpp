#include "serving/stack_batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "unit/serving/model_on_device.h"
#include "unit/support/message_of.h"

namespace sluice::serving {
namespace {

using Outcome = StackReply::Outcome;
using testing::message_of;

constexpr PieceRunner::Capacity kCapacity{.slots = 5, .rows = 4, .time = 3};
constexpr StackBatcher::Limits kLimits{.vocabulary = kVocabulary};

/// The input of a request, or of all requests of a sequence.
struct Input {
  std::vector<float> frames;
  std::vector<std::int32_t> tokens;

  void add(const Input& more) {
    frames.insert(frames.end(), more.frames.begin(), more.frames.end());
    tokens.insert(tokens.end(), more.tokens.begin(), more.tokens.end());
  }
};

class StackBatcherTest : public ::testing::TestWithParam<Case> {
 protected:
  std::int64_t draw(std::int64_t below) {
    return std::uniform_int_distribution<std::int64_t>(0, below - 1)(engine_);
  }
  Input random_input(std::int64_t steps) {
    Input input;
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < steps; ++i) {
      if (model_.features() == 0) input.tokens.push_back(static_cast<int>(draw(kVocabulary)));
      for (std::int64_t j = 0; j < model_.features(); ++j) input.frames.push_back(normal(engine_));
    }
    return input;
  }
  static StackRequest request_of(const Input& input, std::uint64_t sequence, bool begin, bool end,
                                 StackReply* reply) {
    return {.sequence = sequence,
            .begin = begin,
            .end = end,
            .frames = input.frames,
            .tokens = input.tokens,
            .reply = [reply](StackReply given) { *reply = std::move(given); }};
  }
  void run_all(StackBatcher& batcher) {
    while (batcher.requests() > 0) batcher.run(model_.context());
  }
  void check_against_alone(const PieceRunner::Capacity& capacity);
  void expect_alone(const PieceAnswer& answer, const Input& input) {
    expect_same(answer, model_.alone(input.frames, input.tokens), GetParam().device);
  }

  ModelOnDevice model_{GetParam().device, GetParam().kind};
  PieceRunner runner_ = model_.runner(kCapacity);
  std::mt19937 engine_{7};
};

/// A sequence of a client, request by request.
struct Client {
  Input input = {};
  PieceAnswer answer = {};
  std::int64_t requests = 0;  ///< to come
  bool begun = false;
  StackReply reply = {};
  bool waits = false;
};

// Many more sequences than slots, which come and go; what each is answered is what it is answered
// alone, wherever its states were meanwhile.
void StackBatcherTest::check_against_alone(const PieceRunner::Capacity& capacity) {
  PieceRunner runner = model_.runner(capacity);
  StackBatcher batcher(runner, kLimits);
  std::vector<Client> clients(12);
  int ended = 0;
  while (ended < 60) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      Client& client = clients[i];
      if (client.waits || draw(2) == 0) continue;
      if (client.requests == 0) client.requests = 1 + draw(4);
      const Input input = random_input(1 + draw(8));
      client.input.add(input);
      client.waits = true;
      const bool ends = --client.requests == 0;
      batcher.submit(request_of(input, i + 1, !client.begun, ends, &client.reply));
      client.begun = true;
    }
    for (std::int64_t rounds = draw(4); rounds > 0; --rounds) {
      const std::int64_t waiting = batcher.requests();
      EXPECT_EQ(batcher.run(model_.context()), std::min({waiting, capacity.rows, capacity.slots}));
      for (std::size_t i = 0; i < clients.size(); ++i) {
        Client& client = clients[i];
        const bool is_done =
            !client.reply.answer.values.empty() || !client.reply.answer.labels.empty();
        if (!is_done) continue;
        ASSERT_EQ(client.reply.outcome, Outcome::kDone);
        client.answer.append(client.reply.answer);
        client.reply = {};
        client.waits = false;
        if (client.requests > 0) continue;
        expect_alone(client.answer, client.input);
        client = {};
        ++ended;
      }
    }
  }
}

TEST_P(StackBatcherTest, AnswersAsEachSequenceAlone) { check_against_alone(kCapacity); }

TEST_P(StackBatcherTest, AnswersAsEachSequenceAloneWithFewSlots) {
  check_against_alone({.slots = 3, .rows = 4, .time = 3});
}

TEST_P(StackBatcherTest, RunsRequestsOfOneSequenceInTheirOrder) {
  StackBatcher batcher(runner_, kLimits);
  std::vector<StackReply> replies(4);
  Input whole;
  PieceAnswer answer;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    const Input input = random_input(5);
    whole.add(input);
    batcher.submit(request_of(input, 9, i == 0, i == 3, &replies[i]));
  }
  EXPECT_EQ(batcher.run(model_.context()), 1);
  run_all(batcher);
  for (const StackReply& reply : replies) answer.append(reply.answer);
  expect_alone(answer, whole);
  EXPECT_EQ(batcher.sequences(), 0);
}

TEST_P(StackBatcherTest, LeavesASequenceWhereItStoodIfARequestIsCancelledInTime) {
  StackBatcher batcher(runner_, kLimits);
  const Input first = random_input(4), dropped = random_input(2), second = random_input(3);
  StackReply begun, cancelled, expired, done;
  batcher.submit(request_of(first, 1, true, false, &begun));
  run_all(batcher);
  batcher.cancel(batcher.submit(request_of(dropped, 1, false, false, &cancelled)));
  StackRequest late = request_of(dropped, 1, false, false, &expired);
  late.deadline = Clock::now() - std::chrono::seconds(1);
  batcher.submit(std::move(late));
  batcher.submit(request_of(second, 1, false, true, &done));
  run_all(batcher);
  EXPECT_EQ(cancelled.outcome, Outcome::kCancelled);
  EXPECT_EQ(expired.outcome, Outcome::kExpired);
  Input whole = first;
  whole.add(second);
  begun.answer.append(done.answer);
  expect_alone(begun.answer, whole);
}

TEST_P(StackBatcherTest, BreaksOffASequenceThatIsCutInTheMiddle) {
  StackBatcher batcher(runner_, kLimits);
  StackReply cut, behind, anew;
  const auto ticket = batcher.submit(request_of(random_input(9), 1, true, false, &cut));
  batcher.submit(request_of(random_input(2), 1, false, false, &behind));
  batcher.run(model_.context());
  batcher.cancel(ticket);
  const Input input = random_input(5);
  batcher.submit(request_of(input, 1, true, true, &anew));
  run_all(batcher);
  EXPECT_EQ(cut.outcome, Outcome::kCancelled);
  ASSERT_EQ(behind.outcome, Outcome::kFailed);
  EXPECT_STREQ(behind.error->what(),
               "sequence 1 was broken off by a request that did not run to its end; begin it anew");
  expect_alone(anew.answer, input);
  EXPECT_EQ(batcher.sequences(), 0);
}

TEST_P(StackBatcherTest, RefusesAtTheLimits) {
  StackBatcher::Limits limits = kLimits;
  limits.requests = 3;
  limits.sequences = 2;
  limits.steps = 6;
  limits.waiting_steps = 8;
  StackBatcher batcher(runner_, limits);
  StackReply reply;
  const Input input = random_input(1);
  const auto refusal = [&](std::uint64_t sequence, bool begin) {
    return message_of([&] { batcher.submit(request_of(input, sequence, begin, false, &reply)); });
  };
  EXPECT_EQ(refusal(1, false),
            "there is no sequence 1 to go on with; begin it with its first request");
  EXPECT_EQ(refusal(1, true), "");
  EXPECT_EQ(refusal(2, true), "");
  EXPECT_EQ(refusal(3, true), "2 sequences are open already; end some, or try later");
  EXPECT_EQ(refusal(2, false), "");
  EXPECT_EQ(refusal(2, false), "3 requests wait already; try again later");
  run_all(batcher);
  EXPECT_EQ(refusal(0, true), "");  // needs no place among the open sequences
  batcher.submit(request_of(random_input(6), 1, false, false, &reply));
  EXPECT_EQ(
      message_of([&] { batcher.submit(request_of(random_input(2), 2, false, false, &reply)); }),
      "7 steps wait already, and 2 more would exceed 8; try again later");
  run_all(batcher);
  EXPECT_EQ(
      message_of([&] { batcher.submit(request_of(random_input(7), 1, false, false, &reply)); }),
      "a request has 7 steps; it may have 1 to 6");
  EXPECT_EQ(message_of([&] { batcher.submit(request_of({}, 1, false, false, &reply)); }),
            "a request has 0 steps; it may have 1 to 6");
}

// Threads that submit while another runs.
TEST_P(StackBatcherTest, TakesRequestsFromManyThreads) {
  constexpr int kThreads = 4, kSequences = 12;
  StackBatcher batcher(runner_, kLimits);
  std::vector<std::vector<Input>> inputs(kThreads);
  std::vector<std::vector<StackReply>> replies(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    for (int j = 0; j < kSequences; ++j)
      inputs[static_cast<std::size_t>(i)].push_back(random_input(1 + draw(9)));
    replies[static_cast<std::size_t>(i)].resize(kSequences);
  }
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (std::size_t j = 0; j < kSequences; ++j) {
          batcher.submit(request_of(inputs[i][j], 0, false, false, &replies[i][j]));
        }
      });
    }
    for (int i = 0; i < 20; ++i) {
      if (batcher.wait(Clock::now() + std::chrono::milliseconds(10))) batcher.run(model_.context());
    }
  }  // joins the threads
  run_all(batcher);
  for (std::size_t i = 0; i < kThreads; ++i) {
    for (std::size_t j = 0; j < kSequences; ++j) {
      expect_alone(replies[i][j].answer, inputs[i][j]);
    }
  }
  EXPECT_EQ(batcher.sequences(), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, StackBatcherTest, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace sluice::serving
