#pragma once

#include <cupti.h>

#include <string>
#include <string_view>

#include "runtime/vendor_library.h"

namespace sluice::runtime::cuda {

/// NVIDIA's profiling library, opened at run time: nothing links it, and few machines need it.
struct Cupti {
  /// Throws ErrorCode::kDevice with one sentence if it can't be had, or is older than what this was
  /// built for, whose records it would have to write.
  Cupti();

  /// Throws ErrorCode::kDevice with what was tried and CUPTI's reason. `what` completes "could not
  /// ...".
  void check(CUptiResult result, std::string_view what) const;

  VendorLibrary library;
  decltype(&cuptiGetErrorMessage) error_message = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiEnableCallback) enable_callback = nullptr;
  decltype(&cuptiGetGraphNodeId) graph_node_id = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_buffers = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityEnableRuntimeApi) enable_call = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_id = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_id = nullptr;
};

}  // namespace sluice::runtime::cuda
