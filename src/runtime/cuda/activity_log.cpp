#include "runtime/cuda/activity_log.h"

#include <cxxabi.h>

#include <cstdlib>
#include <utility>

#include "runtime/kernel_name.h"

namespace sluice::runtime::cuda {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return text ? text.get() : name;
}

const char* copy_name(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy to the GPU";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy to the host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "copy on the GPU";
    default:
      return "copy";
  }
}

}  // namespace

void ActivityLog::add(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      add_work(kernel.name == nullptr ? "kernel" : kernel.name, kernel.start, kernel.end,
               kernel.streamId, kernel.correlationId, kernel.graphNodeId);
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      add_work(copy_name(copy.copyKind), copy.start, copy.end, copy.streamId, copy.correlationId,
               copy.graphNodeId);
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& clear = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      add_work("clear", clear.start, clear.end, clear.streamId, clear.correlationId,
               clear.graphNodeId);
      return;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& call = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
      const std::lock_guard lock(mutex_);
      labels_[call.correlationId] = static_cast<std::uint32_t>(call.externalId);
      return;
    }
    default:
      return;
  }
}

void ActivityLog::add_work(std::string_view name, std::uint64_t start, std::uint64_t end,
                           std::uint32_t stream, std::uint32_t correlation, std::uint64_t node) {
  if (start == 0 || end <= start) return;  // CUPTI could not measure it
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] =
      name_ids_.try_emplace(std::string(name), static_cast<std::uint32_t>(names_.size()));
  if (is_new) names_.push_back(readable_kernel_name(demangled(place->first.c_str())));
  Piece piece{{static_cast<std::int64_t>(start), static_cast<std::int64_t>(end), place->second,
               kNoLabel, stream},
              correlation};
  const auto captured = nodes_.find(node);
  if (node != 0 && captured != nodes_.end()) piece.work.label = captured->second;
  pieces_.push_back(piece);
  size_ = pieces_.size();
}

void ActivityLog::set_node(std::uint64_t node, std::uint32_t label) {
  const std::lock_guard lock(mutex_);
  nodes_[node] = label;
}

void ActivityLog::copy_node(std::uint64_t node, std::uint64_t original) {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(original);
  if (found == nodes_.end()) return;
  const std::uint32_t label = found->second;
  nodes_[node] = label;
}

DeviceLog ActivityLog::take(std::int64_t offset) {
  const std::lock_guard lock(mutex_);
  DeviceLog log;
  log.names = names_;
  log.work.reserve(pieces_.size());
  for (Piece& piece : pieces_) {
    const auto queued = labels_.find(piece.correlation);
    if (piece.work.label == kNoLabel && queued != labels_.end()) piece.work.label = queued->second;
    piece.work.start += offset;
    piece.work.end += offset;
    log.work.push_back(piece.work);
  }
  pieces_.clear();
  labels_.clear();
  size_ = 0;
  return log;
}

}  // namespace sluice::runtime::cuda
