#pragma once

#include <cstdint>
#include <string>

namespace sluice {

/// What to tell of where time goes; nothing unless set. Some steps are recorded: those of training,
/// or batches of inputs that are decoded together.
struct ProfileRequest {
  /// File for a trace that ui.perfetto.dev and chrome://tracing open, of at most 16 MiB: what the
  /// host did, by module of the model, and on a GPU its kernels. Empty: none.
  std::string trace{};
  /// Print a table of the time by module to standard error when the last step is done.
  bool breakdown = false;
  /// First and last step, counted from 1; 0: a few after the first ones, which are slower.
  std::int64_t first_step = 0, last_step = 0;

  bool is_asked_for() const { return breakdown || !trace.empty(); }
};

}  // namespace sluice
