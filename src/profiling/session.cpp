#include "profiling/session.h"

#include <fmt/format.h>

#include "base/check.h"
#include "profiling/breakdown.h"

namespace sluice::profiling {
namespace {

std::string name_of(const runtime::Device& device) {
  return device.model() == device.name() ? device.name()
                                         : fmt::format("{} ({})", device.name(), device.model());
}

}  // namespace

void print(const std::string& text) { fmt::print(stderr, "{}\n", text); }

Session::Session(const ProfileRequest& request, Tell tell, Turns turns)
    : request_(request), tell_(std::move(tell)), turns_(turns) {
  const bool named = request.first_step != 0 || request.last_step != 0;
  SLUICE_CHECK(!named || request.is_asked_for(),
               "steps to trace are named, but neither a trace nor a breakdown is asked for");
  SLUICE_CHECK(!named || (request.first_step >= 1 && request.last_step >= request.first_step),
               "steps {}:{} can't be traced: they are counted from 1, the first before the last",
               request.first_step, request.last_step);
  if (request.trace.empty()) return;
  if (std::filesystem::is_directory(request.trace)) {
    base::fail(ErrorCode::kIo, "cannot write the trace to '{}': it is a folder", request.trace);
  }
  trace_.emplace(request.trace);
}

void Session::attach(runtime::Context& context, const StepRange& default_steps, std::int64_t done) {
  SLUICE_ASSERT(context_ == nullptr);
  const bool asked = request_.is_asked_for();
  steps_ = request_.first_step == 0
               ? StepRange{default_steps.first + done, default_steps.last + done}
               : StepRange{request_.first_step, request_.last_step};
  SLUICE_CHECK(!asked || steps_.last > done,
               "steps {}:{} can't be traced: the run goes on after step {}", steps_.first,
               steps_.last, done);
  // A profile of the caller's goes on.
  if (!asked && context.profiler() != nullptr) return;
  SLUICE_CHECK(context.profiler() == nullptr,
               "a profile of this model is being recorded; end it before another is asked for");
  if (!asked) steps_ = {1, 0};
  std::unique_ptr<runtime::DeviceTrace> trace = context.device().trace(asked);
  if (!asked && !trace) return;
  context_ = &context;
  device_ = name_of(context.device());
  profiler_ = std::make_unique<runtime::Profiler>(
      std::move(trace), steps_.first, steps_.last,
      [this](const runtime::Profile& profile) { take(profile); });
  context.set_profiler(profiler_.get());
}

void Session::take(const runtime::Profile& profile) {
  ++profiles_;
  if (profiles_ == 1) {
    for (const std::string& fault : profile.device.faults) tell_(fault);
  }
  if (profile.full) {
    tell_(
        fmt::format("the profile ends within {} {}: it holds no more than {} events; name fewer "
                    "steps",
                    profile.step_name, profile.last_step, runtime::Profiler::kMostEvents));
  }
  if (request_.breakdown) tell_(breakdown_text(profile, device_));
  add_to_trace(profile);
  if (turns_ == Turns::kMany) return;
  complete();
  profiler_->close();
}

void Session::add_to_trace(const runtime::Profile& profile) {
  if (!trace_) return;
  try {
    trace_->add(profile, device_);
  } catch (const std::exception& error) {
    drop_trace(error);
  }
}

void Session::drop_trace(const std::exception& reason) {
  tell_(fmt::format("there will be no trace, and the run continues without it: {}", reason.what()));
  trace_.reset();
}

void Session::complete() {
  if (!trace_) return;
  try {
    trace_->commit();
  } catch (const std::exception& error) {
    return drop_trace(error);
  }
  tell_(fmt::format(
      "trace: {}, {} events, {:.1f} MiB; open it at ui.perfetto.dev or "
      "chrome://tracing",
      trace_->path().native(), trace_->events(), static_cast<double>(trace_->bytes()) / (1 << 20)));
  if (trace_->is_full()) {
    tell_(
        fmt::format("the trace ends early: it may take {} MiB at most, as viewers open little "
                    "more; name fewer steps",
                    TraceFile::kMostBytes >> 20));
  }
  trace_.reset();
}

void Session::detach() {
  if (context_ != nullptr) context_->set_profiler(nullptr);
  context_ = nullptr;
  profiler_.reset();
}

void Session::finish() {
  if (profiler_) profiler_->end_run(*context_);
  detach();
  if (!request_.is_asked_for()) return;
  if (profiles_ == 0) {
    tell_(fmt::format("nothing was recorded: the run ended before step {}, the first of {}:{}",
                      steps_.first, steps_.first, steps_.last));
    trace_.reset();
  }
  complete();
}

}  // namespace sluice::profiling
