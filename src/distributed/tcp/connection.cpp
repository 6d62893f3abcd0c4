#include "distributed/tcp/connection.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace sluice::distributed::tcp {
namespace {

/// Before the text of a frame. All machines of a run have one byte order.
struct Header {
  std::uint64_t magic, kind, bytes;
};
constexpr std::uint64_t kMagic = 0x65'63'69'75'6c'73'01'a7;
// More than the arenas of all ranks that anybody would gather this way.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 36;
// The limit before the other side has said that it is a rank.
constexpr std::size_t kMostOfStrangers = 4096;

std::string reason() { return std::strerror(errno); }

bool is_readable(int descriptor, std::chrono::milliseconds wait) {
  const auto end = std::chrono::steady_clock::now() + wait;
  pollfd one{descriptor, POLLIN, 0};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    const int found =
        poll(&one, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60000)));
    if (found >= 0 || errno != EINTR) return found > 0;
  }
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Socket listen_at(int port, Reach reach) {
  const bool all = reach == Reach::kAllMachines;
  Socket listener(all ? socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1);
  sockaddr_storage place{};
  socklen_t size = 0;
  const int off = 0, on = 1;
  if (listener) {
    setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    auto& six = reinterpret_cast<sockaddr_in6&>(place);
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_any;
    six.sin6_port = htons(static_cast<std::uint16_t>(port));
    size = sizeof six;
  } else {  // for this machine alone, or a machine without IPv6
    listener = Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto& four = reinterpret_cast<sockaddr_in&>(place);
    four.sin_family = AF_INET;
    four.sin_addr.s_addr = htonl(all ? INADDR_ANY : INADDR_LOOPBACK);
    four.sin_port = htons(static_cast<std::uint16_t>(port));
    size = sizeof four;
  }
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&place), size) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    base::fail(ErrorCode::kDevice,
               "rank 0 can't listen at the port {}: {}; set MASTER_PORT to a free one on all ranks",
               port, reason());
  }
  return listener;
}

int port_of(const Socket& listener) {
  sockaddr_storage place{};
  socklen_t size = sizeof place;
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&place), &size);
  return ntohs(place.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(place).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(place).sin_port);
}

std::optional<Socket> accept_from(const Socket& listener, std::chrono::milliseconds wait) {
  if (!is_readable(listener.get(), wait)) return std::nullopt;
  Socket one(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!one) return std::nullopt;
  return one;
}

std::optional<Socket> connect_to(const std::string& address, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int status = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (status == EAI_AGAIN) return std::nullopt;
  if (status != 0) {
    base::fail(ErrorCode::kDevice, "MASTER_ADDR is '{}', which is no machine: {}", address,
               gai_strerror(status));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> places(found, freeaddrinfo);
  for (const addrinfo* place = found; place != nullptr; place = place->ai_next) {
    Socket one(socket(place->ai_family, place->ai_socktype | SOCK_CLOEXEC, place->ai_protocol));
    if (one && connect(one.get(), place->ai_addr, place->ai_addrlen) == 0) return one;
  }
  return std::nullopt;
}

Connection::Connection(Socket socket) : socket_(std::move(socket)) {
  const int on = 1;
  // A word of a few bytes must not wait for the next one.
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval most{kSendTimeout.count(), 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
}

bool Connection::send(Frame::Kind kind, std::string_view text) {
  const std::lock_guard lock(sending_);
  return write(kind, text);
}

void Connection::send_unless_busy(Frame::Kind kind, std::string_view text,
                                  std::chrono::milliseconds wait) {
  const std::unique_lock lock(sending_, wait);
  if (!lock) return;
  pollfd room{socket_.get(), POLLOUT, 0};
  if (poll(&room, 1, static_cast<int>(wait.count())) > 0) write(kind, text);
}

bool Connection::write(Frame::Kind kind, std::string_view text) {
  const Header header{kMagic, kind, text.size()};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  const bool small = text.size() < 65536;
  if (small) bytes += text;  // one packet
  for (std::string_view rest : {std::string_view(bytes), small ? std::string_view() : text}) {
    while (!rest.empty()) {
      const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  return true;
}

bool Connection::take_whole(Frame& frame) {
  Header header{};
  if (received_.size() < sizeof header) return false;
  std::memcpy(&header, received_.data(), sizeof header);
  if (header.magic != kMagic || header.kind < Frame::kHello || header.kind > Frame::kEnd ||
      header.bytes > kMostBytes) {
    broken_ = true;
    return false;
  }
  if (received_.size() - sizeof header < header.bytes) return false;
  frame.kind = static_cast<Frame::Kind>(header.kind);
  frame.text = received_.substr(sizeof header, header.bytes);
  received_.erase(0, sizeof header + header.bytes);
  return true;
}

bool Connection::receive(const std::function<void(Frame)>& take) {
  std::array<char, 65536> bytes;
  const ssize_t count = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  const bool goes_on = count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  if (count > 0) received_.append(bytes.data(), static_cast<std::size_t>(count));
  for (Frame frame; take_whole(frame);) take(std::move(frame));
  return goes_on && !broken_;
}

std::optional<Frame> Connection::wait_for_one(std::chrono::milliseconds wait) {
  const auto end = std::chrono::steady_clock::now() + wait;
  std::optional<Frame> first;
  while (!first) {
    Frame frame;
    if (take_whole(frame)) return frame;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (broken_ || left.count() <= 0 || received_.size() > kMostOfStrangers) return std::nullopt;
    if (!is_readable(socket_.get(), left)) return std::nullopt;
    std::array<char, 4096> bytes;
    const ssize_t count = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    received_.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return first;
}

}  // namespace sluice::distributed::tcp
