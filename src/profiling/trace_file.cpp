#include "profiling/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "base/check.h"

namespace sluice::profiling {
namespace {

using runtime::DeviceWork;
using runtime::HostSpan;
using runtime::Profile;

constexpr int kHost = 1;
constexpr int kDevice = 2;
constexpr std::size_t kEndBytes = 512;        // kept for what says that the file is full
constexpr std::int64_t kBetween = 1'000'000;  // nanoseconds shown between two profiles

/// As a JSON string, quotes and all; bytes that are not UTF-8 are replaced.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// The format counts in microseconds.
std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

std::string metadata(const char* what, int process, std::uint32_t thread, const std::string& name) {
  return fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}})", process,
                     thread, what, quoted(name));
}

/// Work of one module that a stream of the device ran without another's between.
struct Stretch {
  std::int64_t start, end;
  std::uint32_t label, stream;
};

std::vector<Stretch> stretches_of(std::vector<DeviceWork> work) {
  std::ranges::sort(work, {}, &DeviceWork::start);
  std::map<std::uint32_t, Stretch> open;  // by stream
  std::vector<Stretch> stretches;
  for (const DeviceWork& piece : work) {
    const auto last = open.find(piece.stream);
    if (last != open.end() && last->second.label == piece.label) {
      last->second.end = std::max(last->second.end, piece.end);
      continue;
    }
    if (last != open.end()) stretches.push_back(last->second);
    open.insert_or_assign(piece.stream, Stretch{piece.start, piece.end, piece.label, piece.stream});
  }
  for (const auto& [stream, stretch] : open) stretches.push_back(stretch);
  std::erase_if(stretches, [](const Stretch& s) { return s.label == runtime::kNoLabel; });
  return stretches;
}

}  // namespace

/// The events of a profile in order of time, outer ones first.
class TraceFile::Timeline {
 public:
  struct Event {
    std::int64_t start, end;
    int process;
    std::uint32_t track;
    const std::string* name;  ///< quoted
    const char* category;
  };

  Timeline(const Profile& profile, std::int64_t shift) : profile_(profile), shift_(shift) {
    for (const runtime::SpanLabel& label : profile.labels) labels_.push_back(quoted(label.text()));
    for (const std::string& name : profile.device.names) kernels_.push_back(quoted(name));
    for (const HostSpan& span : profile.spans) add(span);
    for (const Stretch& stretch : stretches_of(profile.device.work)) {
      add(stretch.start, stretch.end, kDevice, stretch.stream, labels_.at(stretch.label), "module");
    }
    for (const DeviceWork& work : profile.device.work) {
      add(work.start, work.end, kDevice, work.stream, kernels_.at(work.name), "kernel");
    }
    std::ranges::stable_sort(events_, [](const Event& a, const Event& b) {
      return std::pair(a.start, -a.end) < std::pair(b.start, -b.end);
    });
  }

  const std::vector<Event>& events() const { return events_; }

 private:
  void add(const HostSpan& span) {
    if (span.step == 0) return add(span.start, span.end, kHost, 1, labels_.at(span.label), "host");
    const std::string name = quoted(fmt::format("{} {}", profile_.step_name, span.step));
    add(span.start, span.end, kHost, 1, *steps_.insert(name).first, "step");
  }
  void add(std::int64_t start, std::int64_t end, int process, std::uint32_t track,
           const std::string& name, const char* category) {
    start = std::max(start, profile_.begin);
    end = std::min(end, profile_.end);
    if (start > end) return;
    events_.push_back({start + shift_, end + shift_, process, track, &name, category});
  }

  const Profile& profile_;
  std::int64_t shift_;
  std::vector<std::string> labels_, kernels_;  ///< quoted
  std::set<std::string> steps_;
  std::vector<Event> events_;
};

TraceFile::TraceFile(const std::filesystem::path& path, std::size_t most_bytes)
    : path_(path), most_bytes_(most_bytes), file_(path) {
  put("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  put(metadata("process_name", kHost, 0, "host"));
  put_track(kHost, 1, "modules of the model");
}

void TraceFile::put(std::string_view text) {
  file_.write(std::as_bytes(std::span(text)));
  bytes_ += text.size();
}

bool TraceFile::put_event(const std::string& event) {
  if (bytes_ + event.size() + kEndBytes > most_bytes_) return false;
  put(",\n" + event);
  return true;
}

void TraceFile::put_track(int process, std::uint32_t thread, std::string_view name) {
  put_event(metadata("thread_name", process, thread, std::string(name)));
}

void TraceFile::stop_at(std::int64_t time) {
  full_ = true;
  put(
      fmt::format(",\n"
                  R"({{"ph":"i","s":"g","pid":{},"tid":1,"ts":{},"name":"the trace is full"}})",
                  kHost, microseconds(time)));
}

void TraceFile::add(const Profile& profile, const std::string& device) {
  if (full_) return;
  const std::int64_t begin = end_ == 0 ? 0 : end_ + kBetween;
  const Timeline timeline(profile, begin - profile.begin);
  end_ = begin + profile.end - profile.begin;
  if (profile.has_device) {
    put_event(metadata("process_name", kDevice, 0, device));
    std::set<std::uint32_t> streams;
    for (const DeviceWork& work : profile.device.work) streams.insert(work.stream);
    for (const std::uint32_t stream : streams) {
      put_track(kDevice, stream, fmt::format("stream {}", stream));
    }
  }
  for (const Timeline::Event& event : timeline.events()) {
    const bool fits = put_event(
        fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"cat":"{}","name":{}}})",
                    event.process, event.track, microseconds(event.start),
                    microseconds(event.end - event.start), event.category, *event.name));
    if (!fits) return stop_at(event.start);
    ++events_;
  }
  if (profile.full) stop_at(end_);
}

void TraceFile::commit() {
  put("\n]}\n");
  file_.commit();
}

}  // namespace sluice::profiling
