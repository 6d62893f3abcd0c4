#include "plans.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/types/span.h>

#include <algorithm>
#include <array>

namespace sluice::tensorflow {
namespace {

/// For one stream. A plan takes some kilobytes, because packed weights and reserves are tensors.
constexpr std::size_t kMostPlans = 256;

/// A plan has room for at most an eighth more time steps and rows than its run.
constexpr std::int64_t kParts = 8;

/// The next size with kParts steps from a power of two to the next.
std::int64_t rounded(std::int64_t size) {
  std::int64_t power = 1;
  while (power < size) power *= 2;
  const std::int64_t step = std::max<std::int64_t>(1, power / (2 * kParts));
  return (size + step - 1) / step * step;
}

std::string key_of(const sluice_recurrent_options& o) {
  const auto layers = static_cast<std::size_t>(o.layers);
  const auto text = [&](const std::int64_t* widths) {
    return widths == nullptr ? "" : absl::StrJoin(absl::MakeConstSpan(widths, layers), ",");
  };
  std::string key = absl::StrJoin(
      std::make_tuple(o.cell, o.directions, o.input, text(o.hidden), text(o.projection), o.time,
                      o.rows, o.dtype, o.weight_dtype, o.cell_dtype, o.training, o.strided,
                      o.resets, o.peepholes, o.layer_norm, o.hard_sigmoid, o.implementation),
      " ");
  // All their bits: text has six digits of a rate.
  const std::array rates{o.dropout, o.zoneout_h, o.zoneout_c, o.recurrent_dropout};
  key.append(reinterpret_cast<const char*>(rates.data()), sizeof rates);
  return key;
}

}  // namespace

absl::Status status_of(sluice_status status, const sluice_error& error) {
  switch (status) {
    case SLUICE_OK:
      return absl::OkStatus();
    case SLUICE_INVALID_ARGUMENT:
      return absl::InvalidArgumentError(error.message);
    case SLUICE_UNSUPPORTED:
      return absl::UnimplementedError(error.message);
    case SLUICE_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError(error.message);
    default:
      return absl::InternalError(error.message);
  }
}

// --- one stream

absl::Status Stream::make(sluice_device* device, std::unique_ptr<Stream>* stream) {
  auto error = SLUICE_INIT(sluice_error);
  std::unique_ptr<Stream> made(new Stream(device));
  sluice_stream* handle = nullptr;
  TF_RETURN_IF_ERROR(status_of(sluice_stream_create(device, &handle, &error), error));
  made->handle_.reset(handle);
  *stream = std::move(made);
  return absl::OkStatus();
}

Stream::~Stream() { sluice_device_free(device_, workspace_, workspace_bytes_); }

absl::Status Stream::plan(sluice_recurrent_options options, const Plan** found) {
  options.time = rounded(options.time);
  options.rows = rounded(options.rows);
  std::string key = key_of(options);
  const auto place =
      std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) { return plan.key == key; });
  if (place != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, place);
  } else {
    auto error = SLUICE_INIT(sluice_error);
    sluice_recurrent* made = nullptr;
    TF_RETURN_IF_ERROR(
        status_of(sluice_recurrent_create(handle_.get(), &options, &made, &error), error));
    Plan plan{std::move(key), {}, SLUICE_INIT(sluice_recurrent_sizes)};
    plan.plan.reset(made);
    TF_RETURN_IF_ERROR(status_of(sluice_recurrent_get_sizes(made, &plan.sizes, &error), error));
    plans_.push_front(std::move(plan));
    if (plans_.size() > kMostPlans) plans_.pop_back();
  }
  *found = &plans_.front();
  return absl::OkStatus();
}

absl::Status Stream::workspace(const Plan& plan, void** memory) {
  if (plan.sizes.workspace > workspace_bytes_) {
    // Frees the old memory first, so that both need not fit.
    sluice_device_free(device_, workspace_, workspace_bytes_);
    workspace_ = nullptr;
    workspace_bytes_ = 0;
    auto error = SLUICE_INIT(sluice_error);
    TF_RETURN_IF_ERROR(status_of(
        sluice_device_allocate(device_, plan.sizes.workspace, &workspace_, &error), error));
    workspace_bytes_ = plan.sizes.workspace;
  }
  *memory = workspace_;
  return absl::OkStatus();
}

// --- all streams of a device

absl::Status StreamPool::of(tf::OpKernelContext* context, tf::core::RefCountPtr<StreamPool>* pool) {
  tf::ResourceMgr* manager = context->resource_manager();
  StreamPool* found = nullptr;
  TF_RETURN_IF_ERROR(manager->LookupOrCreate<StreamPool>(
      "sluice", "streams", &found, [](StreamPool** made) -> absl::Status {
        auto error = SLUICE_INIT(sluice_error);
        sluice_device* device = nullptr;
        TF_RETURN_IF_ERROR(status_of(sluice_device_open("cpu", &device, &error), error));
        *made = new StreamPool;
        (*made)->device_.reset(device);
        return absl::OkStatus();
      }));
  pool->reset(found);
  return absl::OkStatus();
}

absl::Status StreamPool::take(std::unique_ptr<Stream>* stream) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      *stream = std::move(idle_.back());
      idle_.pop_back();
      return absl::OkStatus();
    }
  }
  return Stream::make(device_.get(), stream);
}

void StreamPool::give_back(std::unique_ptr<Stream> stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(stream));
}

absl::Status StreamLoan::borrow(tf::OpKernelContext* context) {
  TF_RETURN_IF_ERROR(StreamPool::of(context, &pool_));
  return pool_->take(&stream_);
}

}  // namespace sluice::tensorflow
