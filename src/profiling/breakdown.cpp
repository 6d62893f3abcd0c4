#include "profiling/breakdown.h"

#include <algorithm>

namespace sluice::profiling {
namespace {

using runtime::DeviceWork;
using runtime::HostSpan;
using runtime::Profile;

constexpr double kMsPerNs = 1e-6;

/// Nanoseconds of each piece of work within the profile; where several run, each gets an equal
/// part.
std::vector<double> shares_of(const Profile& profile) {
  struct Edge {
    std::int64_t time;
    bool begins;
    std::size_t work;
  };
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < profile.device.work.size(); ++i) {
    const DeviceWork& work = profile.device.work[i];
    const std::int64_t start = std::max(work.start, profile.begin);
    const std::int64_t end = std::min(work.end, profile.end);
    if (start >= end) continue;
    edges.push_back({start, true, i});
    edges.push_back({end, false, i});
  }
  std::ranges::sort(edges, {}, &Edge::time);
  std::vector<double> shares(profile.device.work.size(), 0);
  std::vector<std::size_t> running;
  std::int64_t since = 0;
  for (const Edge& edge : edges) {
    const double part = static_cast<double>(edge.time - since) /
                        static_cast<double>(std::max<std::size_t>(running.size(), 1));
    for (const std::size_t i : running) shares[i] += part;
    since = edge.time;
    if (edge.begins) {
      running.push_back(edge.work);
    } else {
      std::erase(running, edge.work);
    }
  }
  return shares;
}

void add_host(const Profile& profile, std::vector<BreakdownRow>& rows) {
  for (const HostSpan& span : profile.spans) {
    if (span.label == profile.step_label) continue;
    BreakdownRow& row = rows[span.label];
    ++row.calls;
    row.host_ms += static_cast<double>(span.end - span.start - span.inner) * kMsPerNs;
  }
}

void add_device(const Profile& profile, std::vector<BreakdownRow>& rows, Breakdown& result) {
  const std::vector<double> shares = shares_of(profile);
  result.kernels.resize(profile.device.names.size());
  result.device_idle_ms = result.total_ms;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == 0) continue;
    const DeviceWork& work = profile.device.work[i];
    const double ms = shares[i] * kMsPerNs;
    const bool known = work.label < rows.size() && work.label != profile.step_label;
    BreakdownRow& row = known ? rows[work.label] : result.rest;
    ++row.pieces;
    row.device_ms += ms;
    KernelRow& kernel = result.kernels[work.name];
    kernel.name = profile.device.names[work.name];
    ++kernel.runs;
    kernel.device_ms += ms;
    result.device_idle_ms -= ms;
  }
  std::erase_if(result.kernels, [](const KernelRow& kernel) { return kernel.runs == 0; });
  std::ranges::stable_sort(result.kernels, std::ranges::greater(), &KernelRow::device_ms);
}

}  // namespace

Breakdown break_down(const Profile& profile) {
  Breakdown result;
  result.total_ms = static_cast<double>(profile.end - profile.begin) * kMsPerNs;
  std::vector<BreakdownRow> rows;
  for (const runtime::SpanLabel& label : profile.labels) {
    rows.push_back({.module = label.module, .pass = label.pass});
  }
  add_host(profile, rows);
  if (profile.has_device) add_device(profile, rows, result);
  result.rest.host_ms = result.total_ms;
  for (const BreakdownRow& row : rows) result.rest.host_ms -= row.host_ms;
  std::erase_if(rows, [](const BreakdownRow& row) { return row.calls == 0 && row.pieces == 0; });
  std::ranges::stable_sort(rows, [](const BreakdownRow& a, const BreakdownRow& b) {
    return std::pair(a.device_ms, a.host_ms) > std::pair(b.device_ms, b.host_ms);
  });
  result.rows = std::move(rows);
  return result;
}

}  // namespace sluice::profiling
