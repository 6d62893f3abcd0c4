#include "stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <ctime>

namespace sluice::app {
namespace {

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // threads started from now on inherit it
  thread_ = std::jthread([this](const std::stop_token& token) { wait_for_signals(token); });
}

void StopSignals::wait_for_signals(const std::stop_token& token) {
  constexpr timespec kBetweenLooks{0, 100'000'000};
  const sigset_t set = stop_set();
  bool interrupted = false;
  while (!token.stop_requested()) {
    const int signal = sigtimedwait(&set, nullptr, &kBetweenLooks);
    if (signal != SIGTERM && signal != SIGINT) continue;
    if (signal == SIGINT && interrupted) ::_exit(130);
    interrupted = interrupted || signal == SIGINT;
    requested_ = true;
  }
}

}  // namespace sluice::app
