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
using Stream = std::unique_ptr<sluice_stream, Destroy<sluice_stream_destroy>>;

struct Plan {
  std::string key;
  std::unique_ptr<sluice_recurrent, Destroy<sluice_recurrent_destroy>> plan;
  sluice_recurrent_sizes sizes;
};

/// A stream with its plans, for one call at a time.
class Lane {
 public:
  static absl::Status make(sluice_device* device, std::unique_ptr<Lane>* lane);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// The plan for these options, whose time and rows are rounded up so that similar runs share one.
  /// The lane owns it; it lasts until the next call of plan().
  absl::Status plan(sluice_recurrent_options options, const Plan** found);
  /// At least as many bytes as the plan's workspace, which lasts until the next call.
  absl::Status workspace(const Plan& plan, void** memory);

 private:
  explicit Lane(sluice_device* device) : device_(device) {}

  sluice_device* device_;
  Stream stream_;
  std::list<Plan> plans_;  ///< the one used last comes first
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

/// All lanes of a device of TensorFlow's, which runs ops of a graph side by side: there come to be
/// as many lanes as calls run at once. A resource of the device's manager.
class Lanes : public tf::ResourceBase {
 public:
  /// Makes it when first asked for. The caller gets a reference.
  static absl::Status of(tf::OpKernelContext* context, tf::core::RefCountPtr<Lanes>* lanes);

  std::string DebugString() const override { return "plans of Sluice's layers"; }

 private:
  friend class BorrowedLane;
  absl::Status take(std::unique_ptr<Lane>* lane);
  void give_back(std::unique_ptr<Lane> lane);

  Device device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> idle_;  ///< the one used last comes last
};

/// A lane for the duration of a call.
class BorrowedLane {
 public:
  BorrowedLane() = default;
  ~BorrowedLane() {
    if (lane_ != nullptr) lanes_->give_back(std::move(lane_));
  }
  BorrowedLane(const BorrowedLane&) = delete;
  BorrowedLane& operator=(const BorrowedLane&) = delete;

  absl::Status borrow(tf::OpKernelContext* context);
  Lane* operator->() const { return lane_.get(); }

 private:
  tf::core::RefCountPtr<Lanes> lanes_;
  std::unique_ptr<Lane> lane_;
};

}  // namespace sluice::tensorflow
