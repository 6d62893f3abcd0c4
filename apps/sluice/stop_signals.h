#pragma once

#include <atomic>
#include <thread>

namespace sluice::app {

/// While one lives, SIGTERM, SIGUSR1 and SIGINT do nothing but set a flag; a second SIGINT (Ctrl-C)
/// ends the program at once. To be made before the process has other threads.
///
/// No thread but one of its own ever takes these signals, so no handler interrupts a library that
/// keeps data below the stack pointer, as oneDNN 2.6.3's dnnl_sgemm does (nothing here calls it,
/// but oneDNN's own recurrent layers may).
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() = default;  // asks the thread to stop and joins it

  const std::atomic<bool>& requested() const { return requested_; }
  /// While `now`, a signal ends the program at once, with 0 as after any stop that was asked for:
  /// for work that looks at no flag and can be cut short.
  void end_at_once(bool now);

 private:
  void wait_for_signals(const std::stop_token& token);

  std::atomic<bool> requested_{false};
  std::atomic<bool> at_once_{false};
  std::jthread thread_;
};

}  // namespace sluice::app
