#pragma once

#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "runtime/cuda/cupti.h"
#include "runtime/device_trace.h"

namespace sluice::runtime::cuda {

/// CUPTI's records, as they come, until all are there to be joined. CUPTI's own thread adds.
class ActivityLog {
 public:
  /// Adds one record; others than kernels, copies, clears and correlations are passed over.
  void add(const CUpti_Activity& record);
  std::size_t size() const noexcept { return size_; }

  /// Which label the work of a node of a graph has, whenever it runs.
  void set_node(std::uint64_t node, std::uint32_t label);
  /// Makes `node` the copy of another in a graph that can run.
  void copy_node(std::uint64_t node, std::uint64_t original);

  /// What was added since the last call, with its labels: that of the graph's node, else that of
  /// the call that queued it. `offset` is added to times.
  DeviceLog take(std::int64_t offset);

 private:
  void add_work(std::string_view name, std::uint64_t start, std::uint64_t end, std::uint32_t stream,
                std::uint32_t correlation, std::uint64_t node);

  struct Piece {
    DeviceWork work;
    std::uint32_t correlation;
  };

  std::mutex mutex_;
  std::atomic<std::size_t> size_{0};
  std::vector<Piece> pieces_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> name_ids_;  ///< by the name as CUPTI has it
  std::unordered_map<std::uint32_t, std::uint32_t> labels_;  ///< of calls, by correlation
  std::unordered_map<std::uint64_t, std::uint32_t> nodes_;   ///< of nodes of graphs
};

}  // namespace sluice::runtime::cuda
