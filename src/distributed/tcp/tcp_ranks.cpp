#include "distributed/tcp/tcp_ranks.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "distributed/reduce.h"
#include "runtime/part_library.h"

namespace sluice::distributed::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr seconds kHeartbeatTimeout{20};
constexpr seconds kHeartbeat{2};
constexpr seconds kEndTimeout{2};

/// Another rank, as this one sees it.
struct Peer {
  Peer(std::int64_t number, std::unique_ptr<Connection> its_connection)
      : rank(number), connection(std::move(its_connection)) {}

  std::int64_t rank;
  std::unique_ptr<Connection> connection;
  Clock::time_point heard = Clock::now();
  bool ended = false;                    ///< it said so
  bool sent_end = false;                 ///< of this one
  std::deque<std::string> host, device;  ///< what it said and nobody has taken yet
};

/// The time that ranks wait for each other at the start.
seconds start_timeout() {
  const char* text = std::getenv("SLUICE_START_TIMEOUT");
  if (text == nullptr) return seconds(120);
  int given = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, given);
  SLUICE_CHECK(error == std::errc() && rest == end && given > 0 && given <= 86400,
               "SLUICE_START_TIMEOUT is '{}'; it must be a number of seconds, 1 to 86400", text);
  return seconds(given);
}

std::string packed(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    const std::uint64_t size = text.size();
    all.append(reinterpret_cast<const char*>(&size), sizeof size) += text;
  }
  return all;
}

std::vector<std::string> unpacked(const std::string& all) {
  std::vector<std::string> texts;
  std::uint64_t size = 0;
  for (std::size_t at = 0; at < all.size(); at += size) {
    SLUICE_ASSERT(all.size() - at >= sizeof size);
    std::memcpy(&size, all.data() + at, sizeof size);
    at += sizeof size;
    SLUICE_ASSERT(all.size() - at >= size);
    texts.push_back(all.substr(at, size));
  }
  return texts;
}

std::string hello(std::int64_t rank, std::int64_t size) {
  return packed({std::to_string(rank), std::to_string(size), runtime::own_build_id()});
}

/// Writes a line to standard error in one call, so that lines of several ranks don't mix.
void print(const std::string& sentence) {
  const std::string line = fmt::format("sluice: error: {}\n", sentence);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

class TcpRank final : public Communicator {
 public:
  /// Rank 0 has all other ranks as `peers`, in order. Every other rank has rank 0 alone.
  TcpRank(std::int64_t rank, std::int64_t size, std::vector<std::unique_ptr<Peer>> peers)
      : rank_(rank), size_(size), peers_(std::move(peers)), wake_(Socket(eventfd(0, EFD_CLOEXEC))) {
    watcher_ = std::thread([this] { watch(); });
  }
  /// A connection that is closed before the other side has read all would lose the end of it.
  ~TcpRank() override {
    {
      std::unique_lock lock(mutex_);
      for (const auto& peer : peers_) end(*peer);
      changed_.wait_for(lock, kEndTimeout, [&] {
        return std::all_of(peers_.begin(), peers_.end(),
                           [](const auto& one) { return one->ended; });
      });
    }
    ending_ = true;
    const std::uint64_t one = 1;
    if (write(wake_.get(), &one, sizeof one) < 0) std::terminate();
    watcher_.join();
  }
  TcpRank(const TcpRank&) = delete;
  TcpRank& operator=(const TcpRank&) = delete;

  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return size_; }

  /// Rank 0 adds up and sends the sum, so that no more travels than there must.
  void all_reduce(const Context& context, const Tensor& values, Reduction reduction) override {
    check_reduction(values, reduction);
    launch(context, [this, values] {
      if (rank_ != 0) {
        send(*peers_.front(), Frame::kDevice, bytes_of(values));
        return copy_to(values, next_of(*peers_.front(), Frame::kDevice));
      }
      for (const auto& peer : peers_) {
        const std::string more = next_of(*peer, Frame::kDevice);
        SLUICE_ASSERT(more.size() == values.byte_size());
        reduce_into(static_cast<std::byte*>(values.data()),
                    reinterpret_cast<const std::byte*>(more.data()), values.dtype(),
                    values.element_count());
      }
      for (const auto& peer : peers_) send(*peer, Frame::kDevice, bytes_of(values));
    });
  }

  void reduce_scatter(const Context& context, const Tensor& values) override {
    check_parts(values, size_);
    all_reduce(context, values, Reduction::kSum);
  }

  void all_gather(const Context& context, const Tensor& values) override {
    check_parts(values, size_);
    launch(context, [this, values] {
      const std::size_t part = values.byte_size() / static_cast<std::size_t>(size_);
      auto* to = static_cast<char*>(values.data());
      const std::vector<std::string> all =
          exchange_frames(Frame::kDevice, {to + static_cast<std::size_t>(rank_) * part, part});
      for (const std::string& one : all) {
        SLUICE_ASSERT(one.size() == part);
        to = std::copy(one.begin(), one.end(), to);
      }
    });
  }

  void broadcast(const Context& context, const Tensor& values, std::int64_t root) override {
    SLUICE_CHECK(values.is_contiguous() && root >= 0 && root < size_,
                 "a broadcast is of a contiguous tensor, from a rank");
    launch(context, [this, values, root] {
      if (rank_ != 0) {
        Peer& first = *peers_.front();
        if (rank_ == root) return send(first, Frame::kDevice, bytes_of(values));
        return copy_to(values, next_of(first, Frame::kDevice));
      }
      if (root != 0) {
        copy_to(values, next_of(*peers_[static_cast<std::size_t>(root - 1)], Frame::kDevice));
      }
      for (const auto& peer : peers_) {
        if (peer->rank != root) send(*peer, Frame::kDevice, bytes_of(values));
      }
    });
  }

  std::vector<std::string> exchange(std::string_view own) override {
    return exchange_frames(Frame::kHost, own);
  }

  void abort(const Error& error) noexcept override {
    try {
      // Where several fail alike, the first of them says so and ends the others meanwhile.
      std::this_thread::sleep_for(std::min<std::int64_t>(rank_, 6) * milliseconds(500));
      end_all(fmt::format("rank {}: {}", rank_, error.what()));
    } catch (...) {
    }
    std::_Exit(1);
  }

 private:
  static std::string_view bytes_of(const Tensor& values) {
    return {static_cast<const char*>(values.data()), values.byte_size()};
  }

  static void copy_to(const Tensor& values, const std::string& bytes) {
    SLUICE_ASSERT(bytes.size() == values.byte_size());
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  }

  template <typename Work>
  void launch(const Context& context, Work work) {
    SLUICE_CHECK(context.device().runs_host_kernels(), "ranks exchange over TCP on CPUs, not on {}",
                 context.device().name());
    context.stream().launch(std::move(work));
  }

  std::vector<std::string> exchange_frames(Frame::Kind kind, std::string_view own) {
    if (rank_ != 0) {
      send(*peers_.front(), kind, own);
      std::vector<std::string> all = unpacked(next_of(*peers_.front(), kind));
      SLUICE_ASSERT(std::ssize(all) == size_);
      return all;
    }
    std::vector<std::string> all{std::string(own)};
    for (const auto& peer : peers_) all.push_back(next_of(*peer, kind));
    const std::string whole = packed(all);
    for (const auto& peer : peers_) send(*peer, kind, whole);
    return all;
  }

  void send(Peer& peer, Frame::Kind kind, std::string_view text) {
    if (peer.connection->send(kind, text)) return;
    // Its last words may still be there for the watcher, which then ends this process.
    std::this_thread::sleep_for(seconds(2));
    fail_lost_peer(peer);
  }

  std::string next_of(Peer& peer, Frame::Kind kind) {
    std::unique_lock lock(mutex_);
    std::deque<std::string>& said = kind == Frame::kHost ? peer.host : peer.device;
    changed_.wait(lock, [&] { return !said.empty() || peer.ended; });
    if (said.empty()) {
      base::fail(ErrorCode::kDevice,
                 "rank {} has ended, but rank {} waits for it; all ranks must make the same calls",
                 peer.rank, rank_);
    }
    std::string text = std::move(said.front());
    said.pop_front();
    return text;
  }

  void take(Peer& peer, Frame frame) {
    if (frame.kind == Frame::kError) {
      send_error(frame.text);
      std::_Exit(1);  // who failed has said why
    }
    const std::lock_guard lock(mutex_);
    if (frame.kind == Frame::kHost) peer.host.push_back(std::move(frame.text));
    if (frame.kind == Frame::kDevice) peer.device.push_back(std::move(frame.text));
    if (frame.kind == Frame::kEnd) {
      peer.ended = true;
      end(peer);
    }
    changed_.notify_all();
  }

  /// The mutex must be held.
  void end(Peer& peer) {
    if (!std::exchange(peer.sent_end, true)) peer.connection->send(Frame::kEnd, "");
  }

  void receive_from(Peer& peer) {
    const auto taken = [&](Frame frame) { take(peer, std::move(frame)); };
    if (!peer.connection->receive(taken) && !peer.ended) fail_lost_peer(peer);
  }

  void watch() {
    Clock::time_point beat = Clock::now();
    for (const auto& peer : peers_) {
      peer->heard = beat;   // it may have come long before the last one
      receive_from(*peer);  // what came with its first frame
    }
    while (!ending_) {
      std::vector<pollfd> all{{wake_.get(), POLLIN, 0}};
      for (const auto& peer : peers_) {
        all.push_back({peer->ended ? -1 : peer->connection->descriptor(), POLLIN, 0});
      }
      poll(all.data(), all.size(), 1000);
      const Clock::time_point now = Clock::now();
      // This process itself may have been stopped meanwhile.
      const bool slept = now - beat > kHeartbeatTimeout / 2;
      for (std::size_t i = 0; i < peers_.size() && !ending_; ++i) {
        Peer& peer = *peers_[i];
        if (all[i + 1].revents != 0) {
          peer.heard = now;
          receive_from(peer);
        }
        if (slept) peer.heard = now;
        if (!peer.ended && now - peer.heard > kHeartbeatTimeout) {
          end_all(
              fmt::format("rank {} has not been heard of for {} s: its process or machine, or "
                          "the network, hangs; {}",
                          peer.rank, kHeartbeatTimeout.count(), kAgain));
        }
      }
      if (now - beat < kHeartbeat) continue;
      beat = now;
      for (const auto& peer : peers_) {
        if (!peer->ended) peer->connection->send_unless_busy(Frame::kBeat, "", milliseconds(0));
      }
    }
  }

  [[noreturn]] void fail_lost_peer(const Peer& peer) {
    end_all(
        fmt::format("rank {} ended without a word, as if it was killed; {}", peer.rank, kAgain));
  }

  [[noreturn]] void end_all(const std::string& sentence) {
    print(sentence);
    send_error(sentence);
    std::_Exit(1);
  }

  void send_error(const std::string& sentence) {
    for (const auto& peer : peers_) {
      peer->connection->send_unless_busy(Frame::kError, sentence, seconds(1));
    }
  }

  static constexpr const char* kAgain = "the same command goes on from the last checkpoint";

  const std::int64_t rank_, size_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Socket wake_;
  std::mutex mutex_;  ///< of what peers said
  std::condition_variable changed_;
  std::atomic<bool> ending_ = false;
  std::thread watcher_;
};

/// Refuses a rank that can't be one of `size`. Returns its number; -1 for what is no rank.
std::int64_t rank_of(const Frame& frame, std::int64_t size) {
  if (frame.kind != Frame::kHello) return -1;
  std::vector<std::string> said;
  try {
    said = unpacked(frame.text);
  } catch (const Error&) {
    return -1;
  }
  if (said.size() != 3) return -1;
  const std::int64_t rank = std::atoll(said[0].c_str());
  if (rank <= 0 || rank >= size || said[1] != std::to_string(size)) {
    base::fail(ErrorCode::kDevice,
               "a process came as rank {} of {}, but rank 0 waits for {} ranks; is it of another "
               "run? Set MASTER_PORT to another port for each run",
               said[0], said[1], size);
  }
  if (said[2] != runtime::own_build_id()) {
    base::fail(ErrorCode::kDevice,
               "rank {} runs another build of Sluice ({}) than rank 0 ({}); install one on all "
               "machines",
               rank, said[2], runtime::own_build_id());
  }
  return rank;
}

}  // namespace

namespace {

using Peers = std::vector<std::unique_ptr<Peer>>;

void gather_peers(const Socket& listener, std::int64_t size, const std::function<void()>& check,
                  Peers& peers) {
  const seconds most = start_timeout();
  const Clock::time_point end = Clock::now() + most;
  while (true) {
    const std::int64_t missing = std::count(peers.begin(), peers.end(), nullptr);
    if (missing == 0) return;
    auto socket = accept_from(listener, milliseconds(200));
    check();
    if (!socket && Clock::now() >= end) {
      base::fail(ErrorCode::kDevice,
                 "{} of {} ranks did not come within {} s (SLUICE_START_TIMEOUT)", missing, size,
                 most.count());
    }
    if (!socket) continue;
    auto connection = std::make_unique<Connection>(std::move(*socket));
    const std::optional<Frame> said = connection->wait_for_one(seconds(2));
    std::int64_t rank = -1;
    try {
      if (said) rank = rank_of(*said, size);
    } catch (const Error& error) {
      connection->send(Frame::kError, error.what());
      throw;
    }
    if (rank < 0) continue;  // somebody who tries ports
    // A rank that connects again has closed its first connection.
    peers[static_cast<std::size_t>(rank - 1)] = std::make_unique<Peer>(rank, std::move(connection));
  }
}

}  // namespace

std::unique_ptr<Communicator> lead(const Socket& listener, std::int64_t size,
                                   const std::function<void()>& check) {
  Peers peers(static_cast<std::size_t>(size - 1));
  try {
    gather_peers(listener, size, check, peers);
  } catch (const std::exception& error) {
    for (const auto& peer : peers) {
      if (peer) peer->connection->send_unless_busy(Frame::kError, error.what(), seconds(1));
    }
    throw;
  }
  for (const auto& peer : peers) peer->connection->send(Frame::kHello, "");
  return std::make_unique<TcpRank>(0, size, std::move(peers));
}

std::unique_ptr<Communicator> join(const std::string& address, int port, std::int64_t rank,
                                   std::int64_t size) {
  const Clock::time_point end = Clock::now() + start_timeout();
  std::optional<Frame> answer;
  std::unique_ptr<Connection> connection;
  while (!answer && Clock::now() < end) {
    std::optional<Socket> socket = connect_to(address, port);
    if (!socket) {
      std::this_thread::sleep_for(milliseconds(100));
      continue;
    }
    connection = std::make_unique<Connection>(std::move(*socket));
    if (!connection->send(Frame::kHello, hello(rank, size))) continue;
    // Rank 0 answers when all have come.
    answer = connection->wait_for_one(
        std::chrono::duration_cast<milliseconds>(end + seconds(5) - Clock::now()));
    if (!answer) std::this_thread::sleep_for(milliseconds(100));
  }
  if (answer && answer->kind == Frame::kError) std::_Exit(1);  // rank 0 says why
  if (!answer || answer->kind != Frame::kHello) {
    base::fail(ErrorCode::kDevice, "rank 0 does not answer at {}:{} (MASTER_ADDR, MASTER_PORT)",
               address, port);
  }
  std::vector<std::unique_ptr<Peer>> first;
  first.push_back(std::make_unique<Peer>(0, std::move(connection)));
  return std::make_unique<TcpRank>(rank, size, std::move(first));
}

}  // namespace sluice::distributed::tcp
