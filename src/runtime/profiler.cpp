#include "runtime/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/context.h"

namespace sluice::runtime {
namespace {

constexpr std::size_t kDeepest = 64;  // spans within each other, far more than there are

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Profiler::Profiler(std::unique_ptr<DeviceTrace> trace, std::int64_t first, std::int64_t last,
                   Sink sink, std::size_t most_events)
    : trace_(std::move(trace)),
      first_(first),
      last_(last),
      sink_(std::move(sink)),
      most_events_(most_events) {}

void Profiler::begin_step(const Context& context, std::string_view name, std::int64_t number) {
  if (closed_) return;
  if (number <= number_) over_ = false;  // they are counted anew
  number_ = number;
  if (number >= first_ && number <= last_ && !begun_ && !over_) start(context, name, number);
  if (recording_) {
    profile_.last_step = number;
    ++profile_.steps;
  }
  push(label_of(name, ""), number, fmt::format("{} {}", name, number).c_str());
}

void Profiler::end_step(const Context& context) {
  if (closed_) return;
  const std::int64_t number = open_.back().step;
  pop(now());
  if (!begun_) return;
  if (number < last_ && is_full()) profile_.full = true;
  over_ = profile_.full;
  if (number >= last_ || over_) finish(context);
}

void Profiler::abandon_step() noexcept {
  if (closed_) return;
  pop(now());
  if (begun_ && trace_) {
    try {
      trace_->stop();
    } catch (...) {
      // What failed the step is what the caller is to hear of.
    }
  }
  begun_ = recording_ = false;
  profile_ = {};
}

void Profiler::close() noexcept {
  for (std::size_t i = 0; trace_ && i < open_.size(); ++i) trace_->leave();
  open_.clear();
  trace_.reset();
  profile_ = {};
  begun_ = recording_ = false;
  closed_ = true;
}

void Profiler::enter(std::string_view module, std::string_view pass) {
  if (closed_) return;
  const std::uint32_t label = label_of(module, pass);
  push(label, 0, texts_[label].c_str());
}

void Profiler::enter_layer(std::int64_t layer) {
  if (closed_) return;
  if (open_.empty()) return enter(fmt::format("l{}", layer), "");
  const SpanLabel& around = labels_[open_.back().label];
  enter(fmt::format("{}.l{}", around.module, layer), std::string(around.pass));
}

void Profiler::leave() noexcept {
  if (!closed_) pop(now());
}

std::uint32_t Profiler::label_of(std::string_view module, std::string_view pass) {
  const auto passes = ids_.find(module);
  if (passes != ids_.end()) {
    const auto found = passes->second.find(pass);
    if (found != passes->second.end()) return found->second;
  }
  const auto id = static_cast<std::uint32_t>(labels_.size());
  labels_.push_back({std::string(module), std::string(pass)});
  texts_.push_back(labels_.back().text());
  ids_[std::string(module)][std::string(pass)] = id;
  return id;
}

void Profiler::push(std::uint32_t label, std::int64_t step, const char* name) {
  if (recording_ && is_full()) {
    // What goes on ends here, as far as this profile goes.
    profile_.full = true;
    profile_.end = now();
    for (std::size_t i = open_.size(); i > 0; --i) {
      keep(open_[i - 1], profile_.end);
      if (i > 1) open_[i - 2].inner += profile_.end - std::max(open_[i - 1].start, profile_.begin);
    }
    recording_ = false;
  }
  if (trace_) trace_->enter(label, name);
  open_.push_back({label, step, now(), 0});
}

void Profiler::pop(std::int64_t now) noexcept {
  const Open open = open_.back();
  open_.pop_back();
  if (trace_) trace_->leave();
  if (!recording_) return;
  keep(open, now);
  if (!open_.empty()) open_.back().inner += now - std::max(open.start, profile_.begin);
}

// Without an allocation: `start` has reserved what there can be.
void Profiler::keep(const Open& open, std::int64_t now) noexcept {
  if (profile_.spans.size() == profile_.spans.capacity()) return;
  profile_.spans.push_back(
      {open.label, open.step, std::max(open.start, profile_.begin), now, open.inner});
}

bool Profiler::is_full() const noexcept {
  return profile_.spans.size() + (trace_ ? trace_->size() : 0) >= most_events_;
}

void Profiler::start(const Context& context, std::string_view name, std::int64_t number) {
  context.synchronize();
  profile_ = {};
  profile_.spans.reserve(most_events_ + kDeepest);
  profile_.step_name = name;
  profile_.step_label = label_of(name, "");
  profile_.first_step = number;
  if (trace_) trace_->start();
  for (Open& open : open_) open.inner = 0;
  begun_ = recording_ = true;
  profile_.begin = now();
}

void Profiler::finish(const Context& context) {
  context.synchronize();
  if (recording_) profile_.end = now();
  if (trace_) {
    profile_.device = trace_->stop();
    // What can't record at all leaves the host's times.
    profile_.has_device = !profile_.device.work.empty() || profile_.device.faults.empty();
  }
  profile_.labels = labels_;
  begun_ = recording_ = false;
  const Profile done = std::exchange(profile_, {});
  if (sink_) sink_(done);
}

}  // namespace sluice::runtime
