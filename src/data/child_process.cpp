#include "data/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"

namespace sluice::data {
namespace {

/// Two ends of a pipe that no other child inherits.
struct Pipe {
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      base::fail(ErrorCode::kIo, "a pipe to a command can't be made: {}", std::strerror(errno));
    }
  }
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int take(int which) { return std::exchange(ends[which], -1); }

  int ends[2] = {-1, -1};
};

void set_nonblocking(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

/// Python programs then answer each line when they have it, rather than many at once.
std::vector<std::string> environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  if (std::getenv("PYTHONUNBUFFERED") == nullptr) variables.push_back("PYTHONUNBUFFERED=1");
  return variables;
}

pid_t spawn(const std::string& command, int input, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  // Signals as a shell would have them, whatever this program does with its own.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string text = command, shell = "sh", flag = "-c";
  char* arguments[] = {shell.data(), flag.data(), text.data(), nullptr};
  std::vector<std::string> variables = environment();
  std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  pid_t process = -1;
  const int error =
      ::posix_spawn(&process, "/bin/sh", &actions, &attributes, arguments, pointers.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    base::fail(ErrorCode::kIo, "the command '{}' can't be started: {}", command,
               std::strerror(error));
  }
  return process;
}

/// Writes without the signal that ends a program whose reader is gone.
ssize_t write_quietly(int descriptor, std::string_view bytes) {
  sigset_t pipe_signal, before, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
  const int error = errno;
  if (written < 0 && error == EPIPE && !was_pending) {
    const timespec now{};
    sigtimedwait(&pipe_signal, nullptr, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

/// A command that has closed its output and yet goes on is ended after this time.
constexpr std::chrono::seconds kLongestEnd{10};

bool comes_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

ChildProcess::ChildProcess(const std::string& command) {
  Pipe in, out;
  process_ = spawn(command, in.ends[0], out.ends[1]);
  input_ = in.take(1);
  output_ = out.take(0);
  set_nonblocking(input_);
  set_nonblocking(output_);
}

ChildProcess::~ChildProcess() {
  close_input();
  ::close(output_);
  if (process_ < 0) return;
  ::kill(-process_, SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool ChildProcess::ready(bool to_write, std::chrono::milliseconds longest) const {
  pollfd waited[2] = {{output_, POLLIN, 0}, {to_write ? input_ : -1, POLLOUT, 0}};
  // A signal is as good as something to look at.
  return ::poll(waited, 2, static_cast<int>(longest.count())) != 0;
}

std::size_t ChildProcess::write(std::string_view bytes) {
  const ssize_t written = write_quietly(input_, bytes);
  if (written >= 0) return static_cast<std::size_t>(written);
  if (!comes_later(errno)) close_input();
  return 0;
}

std::optional<std::size_t> ChildProcess::read(std::span<char> out) {
  const ssize_t got = ::read(output_, out.data(), out.size());
  if (got >= 0) return static_cast<std::size_t>(got);
  if (comes_later(errno)) return std::nullopt;
  base::fail(ErrorCode::kIo, "what a command says can't be read: {}", std::strerror(errno));
}

void ChildProcess::close_input() {
  if (input_ >= 0) ::close(std::exchange(input_, -1));
}

std::string ChildProcess::wait() {
  int status = 0;
  const auto latest = std::chrono::steady_clock::now() + kLongestEnd;
  pid_t ended = 0;
  while ((ended = ::waitpid(process_, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
    if (std::chrono::steady_clock::now() > latest) ::kill(-process_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  process_ = -1;
  // Where a program ignores SIGCHLD, the system throws away how its children ended.
  if (ended < 0) return "an unknown end";
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  exit_code_ = WEXITSTATUS(status);
  return fmt::format("exit code {}", exit_code_);
}

}  // namespace sluice::data
