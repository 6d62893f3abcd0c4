#pragma once

#include <tensorflow/core/framework/resource_mgr.h>

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stack.h"

namespace sluice::tensorflow {

/// The error for a status of Sluice's.
absl::Status status_of(sluice_status status, const sluice_error& error);

/// A function of sluice.h as a deleter.
template <auto kDestroy>
struct Destroy {
  template <typename Object>
  void operator()(Object* object) const {
    kDestroy(object);
  }
};

using Device = std::unique_ptr<sluice_device, Destroy<sluice_device_close>>;
using StreamHandle = std::unique_ptr<sluice_stream, Destroy<sluice_stream_destroy>>;

struct Plan {
  std::string key;
  std::unique_ptr<sluice_recurrent, Destroy<sluice_recurrent_destroy>> plan;
  sluice_recurrent_sizes sizes;
};

/// A stream of Sluice's with the plans that were made for it. One call uses it at a time.
class Stream {
 public:
  static absl::Status make(sluice_device* device, std::unique_ptr<Stream>* stream);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// The plan for these options, whose time and rows are rounded up so that similar runs share one.
  /// The stream owns it; it lasts until the next call of plan().
  absl::Status plan(sluice_recurrent_options options, const Plan** found);
  /// At least as many bytes as the plan's workspace, which lasts until the next call.
  absl::Status workspace(const Plan& plan, void** memory);

 private:
  explicit Stream(sluice_device* device) : device_(device) {}

  sluice_device* device_;
  StreamHandle handle_;
  std::list<Plan> plans_;  ///< the one used last comes first
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

/// The streams of a device of TensorFlow's. TensorFlow runs ops of a graph at the same time, so
/// there are as many streams as calls ever ran at once. A resource of the device's manager.
class StreamPool : public tf::ResourceBase {
 public:
  /// The pool of the context's device, which the first call makes. The caller gets a reference.
  static absl::Status of(tf::OpKernelContext* context, tf::core::RefCountPtr<StreamPool>* pool);

  std::string DebugString() const override { return "plans of Sluice's layers"; }

 private:
  friend class StreamLoan;
  absl::Status take(std::unique_ptr<Stream>* stream);
  void give_back(std::unique_ptr<Stream> stream);

  Device device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Stream>> idle_;  ///< the one used last comes last
};

/// A stream for the duration of a call.
class StreamLoan {
 public:
  StreamLoan() = default;
  ~StreamLoan() {
    if (stream_ != nullptr) pool_->give_back(std::move(stream_));
  }
  StreamLoan(const StreamLoan&) = delete;
  StreamLoan& operator=(const StreamLoan&) = delete;

  absl::Status borrow(tf::OpKernelContext* context);
  Stream* operator->() const { return stream_.get(); }

 private:
  tf::core::RefCountPtr<StreamPool> pool_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace sluice::tensorflow
