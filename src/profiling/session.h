#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "profiling/trace_file.h"
#include "runtime/context.h"
#include "runtime/profiler.h"
#include "sluice/profile.h"

namespace sluice::profiling {

/// The steps that are recorded unless a request names some.
struct StepRange {
  std::int64_t first = 1, last = 1;
};

/// Writes a text and a line break to standard error.
void print(const std::string& text);

/// What a request to profile comes to in one run: made before the run, so that what can't be
/// written is refused in time; attached to the context that the run works with; finished after it.
/// A trace that can't be written later does not end the run: it is dropped, and a sentence says so.
class Session {
 public:
  /// Takes texts for people: tables, and what there is to say of the trace.
  using Tell = std::function<void(const std::string&)>;

  /// Whether the steps are recorded once, or anew each time that they are counted from 1 again.
  enum class Turns { kOnce, kMany };

  /// Throws ErrorCode::kInvalidArgument for steps that can't be, kIo for a trace that can't be
  /// written.
  Session(const ProfileRequest& request, Tell tell, Turns turns = Turns::kOnce);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { detach(); }

  /// Has what is done with `context` recorded, until `detach`. Does nothing if nothing was asked
  /// for and no tool watches. `done` steps of the run lie behind it; throws
  /// ErrorCode::kInvalidArgument if what was asked for does.
  void attach(runtime::Context& context, const StepRange& default_steps, std::int64_t done = 0);
  /// To be called before the context's device goes.
  void detach();
  /// Detaches and completes the trace. Without it none is left.
  void finish();

 private:
  void take(const runtime::Profile& profile);
  void add_to_trace(const runtime::Profile& profile);
  void complete();
  void drop_trace(const std::exception& reason);

  ProfileRequest request_;
  Tell tell_;
  Turns turns_;
  StepRange steps_;
  runtime::Context* context_ = nullptr;
  std::string device_;
  std::unique_ptr<runtime::Profiler> profiler_;
  std::optional<TraceFile> trace_;
  std::int64_t profiles_ = 0;
};

}  // namespace sluice::profiling
