#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::distributed::tcp {

/// A file descriptor that is closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// The machines that may connect.
enum class Reach { kThisMachine, kAllMachines };

/// Listens at `port`; 0: one that is free. Throws ErrorCode::kDevice if the port is in use.
Socket listen_at(int port, Reach reach = Reach::kAllMachines);
int port_of(const Socket& listener);

/// Waits for somebody to connect; absent after `wait`.
std::optional<Socket> accept_from(const Socket& listener, std::chrono::milliseconds wait);

/// Connects to a name or address; absent if nobody listens there yet, or the name can't be looked
/// up at present. Throws ErrorCode::kDevice if there is no such name.
std::optional<Socket> connect_to(const std::string& address, int port);

/// A message between two ranks.
struct Frame {
  enum Kind : std::uint64_t {
    kHello = 1,  ///< begins each connection
    kHost,       ///< of exchange()
    kDevice,     ///< of a collective
    kBeat,       ///< "this process lives"
    kError,      ///< a sentence: the run has failed
    kEnd         ///< no more will come
  };
  Kind kind = kBeat;
  std::string text;
};

inline constexpr std::chrono::seconds kSendTimeout{20};

/// A connection between two ranks, which carries frames. One thread receives; any may send.
class Connection {
 public:
  explicit Connection(Socket socket);

  int descriptor() const { return socket_.get(); }
  /// Waits until the system has taken it; false if the other side is gone or took nothing for
  /// `kSendTimeout`.
  bool send(Frame::Kind kind, std::string_view text);
  /// The same of a short frame, unless another thread has been sending for `wait`.
  void send_unless_busy(Frame::Kind kind, std::string_view text, std::chrono::milliseconds wait);
  /// Reads what has come and calls take(frame) for every frame that is whole; false once no more
  /// can come, or what came is no frame.
  bool receive(const std::function<void(Frame)>& take);
  /// The next frame; absent after `wait` or at the end of the connection.
  std::optional<Frame> wait_for_one(std::chrono::milliseconds wait);

 private:
  bool take_whole(Frame& frame);
  bool write(Frame::Kind kind, std::string_view text);

  Socket socket_;
  std::timed_mutex sending_;
  std::string received_;  ///< the begin of frames that are not whole yet
  bool broken_ = false;
};

}  // namespace sluice::distributed::tcp
