#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device_trace.h"

namespace sluice::runtime {

class Context;

/// What work is counted under: a module of the model, named as its parameters are ("encoder.l0"),
/// or of the program ("optimizer"), and which part of its work ("forward"; may be empty).
struct SpanLabel {
  std::string module, pass;

  std::string text() const { return pass.empty() ? module : module + " " + pass; }
};

/// A stretch of the host's time, in nanoseconds on steady_clock.
struct HostSpan {
  std::uint32_t label = 0;
  std::int64_t step = 0;  ///< its number, if it is a whole step; else 0
  std::int64_t start = 0, end = 0;
  std::int64_t inner = 0;  ///< of it, within spans inside
};

/// What was recorded of some steps.
struct Profile {
  std::string step_name;  ///< what a step is: "step", "batch"
  std::int64_t first_step = 0, last_step = 0;
  std::int64_t steps = 0;  ///< how many; the last may be cut short
  /// From when the device had nothing to do to when it had again. Spans lie within.
  std::int64_t begin = 0, end = 0;
  std::vector<SpanLabel> labels;
  std::uint32_t step_label = 0;
  std::vector<HostSpan> spans;  ///< in order of their ends
  /// Whether `device` tells what the device did; else the host ran it all, or a fault says why not.
  bool has_device = false;
  DeviceLog device;
  bool full = false;  ///< ends where a profiler holds no more
};

/// Records what the host does, by Spans (runtime/span.h), and what the device makes of it, for some
/// steps of a run. A Context carries it to whoever queues work: there is no profiler of the
/// process, so of two engines in it one can be watched. For one thread, and for devices that run
/// what is queued at once (the CPU, whose spans are then the times of execution) or have a
/// DeviceTrace.
class Profiler {
 public:
  /// Takes what was recorded each time that the last of the steps is done.
  using Sink = std::function<void(const Profile&)>;

  /// Spans and pieces of device work that it holds, about; 64 MiB.
  static constexpr std::size_t kMostEvents = std::size_t{1} << 20;

  /// Records steps `first` to `last`; none if last < first, and then only passes spans on to
  /// `trace`, which may be absent. `most_events` is for tests.
  Profiler(std::unique_ptr<DeviceTrace> trace, std::int64_t first, std::int64_t last, Sink sink,
           std::size_t most_events = kMostEvents);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void begin_step(const Context& context, std::string_view name, std::int64_t number);
  /// Calls the sink when it was the last; throws what that throws.
  void end_step(const Context& context);
  /// Hands on what there is when the run ends before the last step; between steps.
  void end_run(const Context& context) {
    if (begun_) finish(context);
  }
  /// Forgets a step that failed, and what was recorded with it.
  void abandon_step() noexcept;
  /// For good: drops the device's trace, and steps and spans, also those that are open, cost next
  /// to nothing from here on. The sink may call it.
  void close() noexcept;

  void enter(std::string_view module, std::string_view pass);
  /// A layer of the module entered last: "l0" below "encoder".
  void enter_layer(std::int64_t layer);
  void leave() noexcept;

 private:
  struct Open {
    std::uint32_t label;
    std::int64_t step, start, inner;
  };

  std::uint32_t label_of(std::string_view module, std::string_view pass);
  void push(std::uint32_t label, std::int64_t step, const char* name);
  void pop(std::int64_t now) noexcept;
  void keep(const Open& open, std::int64_t now) noexcept;
  bool is_full() const noexcept;
  void start(const Context& context, std::string_view name, std::int64_t number);
  void finish(const Context& context);

  std::unique_ptr<DeviceTrace> trace_;
  std::int64_t first_, last_;
  Sink sink_;
  std::size_t most_events_;
  std::vector<SpanLabel> labels_;
  std::vector<std::string> texts_;  ///< of the labels
  template <typename Value>
  using ByName = std::map<std::string, Value, std::less<>>;
  ByName<ByName<std::uint32_t>> ids_;  ///< by module and pass
  std::vector<Open> open_;
  Profile profile_;
  std::int64_t number_ = 0;  ///< of the last step
  bool over_ = false;        ///< until steps are counted anew, for it was full
  bool begun_ = false;       ///< a profile has been begun and not been handed over
  bool recording_ = false;   ///< and takes more
  bool closed_ = false;
};

}  // namespace sluice::runtime
