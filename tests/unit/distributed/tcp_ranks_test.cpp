#include "distributed/tcp/tcp_ranks.h"

#include <sys/socket.h>

#include <cmath>
#include <random>
#include <thread>

#include "distributed/threads/thread_ranks.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"

namespace sluice::distributed::tcp {
namespace {

using Work = std::function<void(Communicator&)>;

/// Runs `work` on so many ranks that meet at a free port of this machine, each in a thread.
void on_tcp(std::int64_t count, const Work& work) {
  const Socket listener = listen_at(0);
  std::vector<std::jthread> others;
  for (std::int64_t rank = 1; rank < count; ++rank) {
    others.emplace_back([&, rank] { work(*join("localhost", port_of(listener), rank, count)); });
  }
  work(*lead(listener, count));
}

void on_threads(std::int64_t count, const Work& work) {
  const auto ranks = threads::make_ranks(count);
  std::vector<std::jthread> others;
  for (const auto& rank : ranks) others.emplace_back([&] { work(*rank); });
}

TEST(TcpRanks, HearWhatEachOfThemSays) {
  for (const std::int64_t count : {1, 2, 5}) {
    on_tcp(count, [&](Communicator& rank) {
      ASSERT_EQ(rank.size(), count);
      for (int round = 0; round < 100; ++round) {
        // Empty ones too, some larger than what the system takes at once.
        const auto said = [&](std::int64_t who) {
          return std::string(static_cast<std::size_t>((who + round) % 7 == 6 ? 3000000 : who * 7),
                             static_cast<char>('a' + (who + round) % 26));
        };
        const std::vector<std::string> heard = rank.exchange(said(rank.rank()));
        ASSERT_EQ(std::ssize(heard), count);
        for (std::int64_t who = 0; who < count; ++who) {
          ASSERT_TRUE(heard[static_cast<std::size_t>(who)] == said(who)) << who << ' ' << round;
        }
      }
    });
  }
}

/// Sums of numbers whose order matters, as ranks that are threads make them.
TEST(TcpRanks, ReduceAsThreadsDo) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  for (const char* name : {"cpu", "test"}) {
    std::vector<std::vector<float>> sums[2];
    for (const bool tcp : {false, true}) {
      sums[tcp].resize(3);
      const Work work = [&](Communicator& rank) {
        const auto device = runtime::open_device(name);
        const Context context(*device);
        std::mt19937 random(seed + static_cast<unsigned>(rank.rank()));
        std::vector<float> own(100003);
        for (float& one : own) {
          one = std::ldexp(static_cast<float>(random() % 200) - 99.5f,
                           static_cast<int>(random() % 40));
        }
        const runtime::Buffer memory(*device, own.size() * sizeof(float));
        const Tensor values = memory.tensor(base::DType::kFloat32, {std::ssize(own)});
        context.upload<float>(values, own);
        rank.all_reduce(context, values, Reduction::kSum);
        rank.broadcast(context, values.slice(0, 0, 10), 2);
        const Tensor parts = values.slice(0, 10, 3010);
        rank.reduce_scatter(context, parts);
        rank.all_gather(context, parts);
        sums[tcp][static_cast<std::size_t>(rank.rank())] = context.download<float>(values);
      };
      tcp ? on_tcp(3, work) : on_threads(3, work);
    }
    EXPECT_TRUE(sums[0] == sums[1]) << name;
    EXPECT_TRUE(sums[1][0] == sums[1][2]) << name;
  }
}

TEST(TcpRanks, MarksTakeTheLargest) {
  on_tcp(3, [](Communicator& rank) {
    const auto device = runtime::open_device("cpu");
    const Context context(*device);
    const runtime::Buffer memory(*device, 3);
    const Tensor marks = memory.tensor(base::DType::kUInt8, {3});
    std::vector<std::uint8_t> own(3);
    own[static_cast<std::size_t>(rank.rank())] = 1;
    context.upload<std::uint8_t>(marks, own);
    rank.all_reduce(context, marks, Reduction::kMax);
    EXPECT_EQ(context.download<std::uint8_t>(marks), (std::vector<std::uint8_t>{1, 1, 1}));
  });
}

/// Somebody else's connection, and garbage, keep nobody from coming.
TEST(TcpRanks, LetStrangersGo) {
  const Socket listener = listen_at(0);
  std::jthread other([&] {
    const auto stranger = connect_to("localhost", port_of(listener));
    ASSERT_TRUE(stranger.has_value());
    const std::string words = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: everything\r\n\r\n";
    ASSERT_EQ(::send(stranger->get(), words.data(), words.size(), 0), std::ssize(words));
    const auto rank = join("localhost", port_of(listener), 1, 2);
    EXPECT_EQ(rank->exchange("b"), (std::vector<std::string>{"a", "b"}));
  });
  const auto rank = lead(listener, 2);
  EXPECT_EQ(rank->exchange("a"), (std::vector<std::string>{"a", "b"}));
}

TEST(TcpRanks, SayThatOneEndedEarly) {
  on_tcp(2, [](Communicator& rank) {
    rank.exchange("");
    if (rank.rank() == 1) return;
    EXPECT_NE(testing::message_of([&] {
                rank.exchange("");
              }).find("rank 1 has ended, but rank 0 waits for it"),
              std::string::npos);
  });
}

TEST(TcpRanks, RefuseAPortThatIsTaken) {
  const Socket listener = listen_at(0);
  const std::string said = testing::message_of([&] { listen_at(port_of(listener)); });
  EXPECT_NE(said.find("can't listen at the port " + std::to_string(port_of(listener))),
            std::string::npos)
      << said;
  EXPECT_NE(testing::message_of([] { connect_to("nowhere.invalid", 1); }).find("nowhere.invalid"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::distributed::tcp
