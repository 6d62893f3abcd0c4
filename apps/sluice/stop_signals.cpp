#include "stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <ctime>
#include <string_view>

namespace sluice::app {
namespace {

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR1);  // which mpirun and Slurm pass on without killing
  return set;
}

/// As the last act of a process whose other threads are at work.
[[noreturn]] void end_now() {
  // A line that shows how far they are has no end.
  constexpr std::string_view kErase = "\r\x1b[K";
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (terminal && ::write(STDERR_FILENO, kErase.data(), kErase.size()) < 0) ::_exit(1);
  constexpr std::string_view kText =
      "stopped while data were being prepared; the same command begins anew\n";
  if (::write(STDOUT_FILENO, kText.data(), kText.size()) < 0) ::_exit(1);
  ::_exit(0);
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // threads started from now on inherit it
  thread_ = std::jthread([this](const std::stop_token& token) { wait_for_signals(token); });
}

// Each side sets its flag before it looks at the other's, so a signal in between is not missed.
void StopSignals::end_at_once(bool now) {
  at_once_ = now;
  if (now && requested_) end_now();
}

void StopSignals::wait_for_signals(const std::stop_token& token) {
  constexpr timespec kBetweenLooks{0, 100'000'000};
  const sigset_t set = stop_set();
  bool interrupted = false;
  while (!token.stop_requested()) {
    const int signal = sigtimedwait(&set, nullptr, &kBetweenLooks);
    if (signal != SIGTERM && signal != SIGINT && signal != SIGUSR1) continue;
    if (signal == SIGINT && interrupted) ::_exit(130);
    interrupted = interrupted || signal == SIGINT;
    requested_ = true;
    if (at_once_) end_now();
  }
}

}  // namespace sluice::app
