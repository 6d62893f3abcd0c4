#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

#include "base/check.h"
#include "runtime/cuda/activity_log.h"
#include "runtime/cuda/device_trace.h"

namespace sluice::runtime::cuda {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr std::size_t kBufferAlignment = 8;
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
    // Correlations come with the records of calls only; those themselves are passed over.
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER};

// Frequent calls that queue nothing; their records would only cost time.
constexpr CUpti_CallbackId kIdleCalls[] = {CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
                                           CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020,
                                           CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020,
                                           CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020,
                                           CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000};

class CuptiTrace;

/// CUPTI is one for a process and calls back without an argument of ours, so this is too. Null
/// while nobody records.
std::atomic<CuptiTrace*> recording{nullptr};

std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class CuptiTrace final : public NvtxTrace {
 public:
  CuptiTrace() {
    CuptiTrace* nobody = nullptr;
    if (!recording.compare_exchange_strong(nobody, this)) {
      base::fail(ErrorCode::kDevice, "something else in this process records with CUPTI already");
    }
    try {
      open();
    } catch (...) {
      close();
      throw;
    }
  }
  ~CuptiTrace() override {
    if (started_) end_recording();
    close();
  }
  CuptiTrace(const CuptiTrace&) = delete;
  CuptiTrace& operator=(const CuptiTrace&) = delete;

  void enter(std::uint32_t label, const char* name) noexcept override {
    NvtxTrace::enter(label, name);
    try {
      labels_.push_back(label);
    } catch (...) {
      return;  // leave() then takes the span around for this one's
    }
    if (started_) cupti_.push_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, label);
  }

  void leave() noexcept override {
    NvtxTrace::leave();
    if (!labels_.empty()) labels_.pop_back();
    std::uint64_t last = 0;
    if (started_) cupti_.pop_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
  }

  void start() noexcept override {
    try {
      for (const CUpti_ActivityKind kind : kKinds) {
        cupti_.check(cupti_.enable(kind), "record it");
      }
      for (const CUpti_CallbackId call : kIdleCalls) cupti_.enable_call(call, 0);
      started_ = true;
    } catch (const std::exception& error) {
      fault_ = fmt::format("what the GPU did is not recorded: {}", error.what());
      disable();
      return;
    }
    for (const std::uint32_t label : labels_) {
      cupti_.push_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, label);
    }
  }

  std::size_t size() const noexcept override { return log_.size(); }

  DeviceLog stop() override {
    if (started_) end_recording();
    DeviceLog log = log_.take(clock_offset());
    if (!fault_.empty()) log.faults.push_back(fault_);
    if (dropped_ > 0) {
      log.faults.push_back(
          fmt::format("CUPTI had to drop {} records of what the GPU did", dropped_.load()));
    }
    dropped_ = 0;
    return log;
  }

 private:
  void open() {
    cupti_.check(cupti_.subscribe(&subscriber_, on_callback, nullptr), "open it");
    for (const CUpti_CallbackId id :
         {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED}) {
      cupti_.check(cupti_.enable_callback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id),
                   "watch how CUDA graphs are made");
    }
    cupti_.check(cupti_.register_buffers(give_buffer, take_buffer), "give it buffers");
  }

  void close() noexcept {
    if (subscriber_ != nullptr) cupti_.unsubscribe(subscriber_);
    recording = nullptr;
  }

  /// Returns when CUPTI has handed over all its buffers, so that its thread reads none for this any
  /// more.
  void end_recording() noexcept {
    disable();
    cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  }

  void disable() noexcept {
    std::uint64_t last = 0;
    for (std::size_t i = 0; started_ && i < labels_.size(); ++i) {
      cupti_.pop_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
    }
    for (const CUpti_ActivityKind kind : kKinds) cupti_.disable(kind);
    started_ = false;
  }

  /// From CUPTI's clock to steady_clock: of a few readings the one taken in the least time.
  std::int64_t clock_offset() const {
    std::int64_t best = 0, least = 0;
    for (int i = 0; i < 8; ++i) {
      std::uint64_t there = 0;
      const std::int64_t before = steady_now();
      cupti_.timestamp(&there);
      const std::int64_t after = steady_now();
      if (i > 0 && after - before >= least) continue;
      least = after - before;
      best = before + least / 2 - static_cast<std::int64_t>(there);
    }
    return best;
  }

  static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
    *size = *buffer == nullptr ? 0 : kBufferBytes;
    *most = 0;
  }

  static void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                   std::size_t, std::size_t valid) {
    if (CuptiTrace* trace = recording) trace->read(context, stream, buffer, valid);
    std::free(buffer);
  }

  void read(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t valid) {
    CUpti_Activity* record = nullptr;
    while (cupti_.next_record(buffer, valid, &record) == CUPTI_SUCCESS) log_.add(*record);
    std::size_t dropped = 0;
    if (cupti_.dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) dropped_ += dropped;
  }

  /// On the thread that captures: a graph's nodes belong to the span that is open then, and the
  /// nodes of what is made to run of it are copies.
  static void CUPTIAPI on_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId id,
                                   const void* data) {
    CuptiTrace* trace = recording;
    if (trace == nullptr) return;
    const auto* graph = static_cast<const CUpti_GraphData*>(
        static_cast<const CUpti_ResourceData*>(data)->resourceDescriptor);
    std::uint64_t node = 0, original = 0;
    if (trace->cupti_.graph_node_id(graph->node, &node) != CUPTI_SUCCESS) return;
    if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) {
      if (std::this_thread::get_id() != trace->thread_ || trace->labels_.empty()) return;
      trace->log_.set_node(node, trace->labels_.back());
    } else if (trace->cupti_.graph_node_id(graph->originalNode, &original) == CUPTI_SUCCESS) {
      trace->log_.copy_node(node, original);
    }
  }

  Cupti cupti_;
  const std::thread::id thread_ = std::this_thread::get_id();
  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool started_ = false;
  std::string fault_;
  std::vector<std::uint32_t> labels_;  ///< of the open spans
  std::atomic<std::size_t> dropped_{0};
  ActivityLog log_;
};

}  // namespace

std::unique_ptr<DeviceTrace> open_cupti_trace() { return std::make_unique<CuptiTrace>(); }

}  // namespace sluice::runtime::cuda
