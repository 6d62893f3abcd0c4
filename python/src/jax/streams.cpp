#include "streams.h"

#include <map>
#include <utility>

namespace sluice::jax {

Stream::Stream(sluice_device* device, void* cuda_stream) : on_gpu_(cuda_stream != nullptr) {
  check([&](sluice_error* error) {
    return on_gpu_ ? sluice_stream_wrap(device, cuda_stream, nullptr, &stream_, error)
                   : sluice_stream_create(device, &stream_, error);
  });
}

Stream::~Stream() {
  by_key_.clear();
  plans_.clear();
  sluice_stream_destroy(stream_);
}

Plan& Stream::plan(const Description& description) {
  std::string key = description.key();
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    plans_.splice(plans_.begin(), plans_, found->second);
    return plans_.front().second;
  }
  plans_.emplace_front(std::piecewise_construct, std::forward_as_tuple(std::move(key)),
                       std::forward_as_tuple());
  try {
    Plan& plan = plans_.front().second;
    std::string implementation;
    const sluice_recurrent_options options = description.options(on_gpu_, implementation);
    check([&](sluice_error* error) {
      return sluice_recurrent_create(stream_, &options, &plan.handle, error);
    });
    check([&](sluice_error* error) {
      return sluice_recurrent_get_sizes(plan.handle, &plan.sizes, error);
    });
    by_key_.emplace(plans_.front().first, plans_.begin());
  } catch (...) {
    plans_.pop_front();
    throw;
  }
  if (plans_.size() > kMostPlans) {
    by_key_.erase(plans_.back().first);
    plans_.pop_back();
  }
  return plans_.front().second;
}

std::unique_ptr<Stream> StreamPool::take() {
  std::unique_lock lock(mutex_);
  if (cuda_stream_ != nullptr) {
    // Each of Sluice's streams takes scratch memory of the GPU.
    returned_.wait(lock, [&] { return !idle_.empty() || !made_; });
  }
  if (idle_.empty()) {
    auto stream = std::make_unique<Stream>(device_, cuda_stream_);
    made_ = true;
    return stream;
  }
  std::unique_ptr<Stream> stream = std::move(idle_.back());
  idle_.pop_back();
  return stream;
}

void StreamPool::give_back(std::unique_ptr<Stream> stream) {
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(stream));
  }
  returned_.notify_one();
}

namespace {

sluice_device* open(const std::string& name) {
  sluice_device* device = nullptr;
  check([&](sluice_error* error) { return sluice_device_open(name.c_str(), &device, error); });
  return device;
}

}  // namespace

StreamPool& cpu_pool() {
  // Never destroyed: threads of XLA's may still run when the process ends.
  static auto* pool = new StreamPool(open("cpu"), nullptr);
  return *pool;
}

StreamPool& cuda_pool(std::int32_t device, void* stream) {
  static auto* mutex = new std::mutex;
  static auto* devices = new std::map<std::int32_t, sluice_device*>;
  static auto* pools = new std::map<std::pair<std::int32_t, void*>, StreamPool>;
  const std::lock_guard lock(*mutex);
  const auto found = pools->find({device, stream});
  if (found != pools->end()) return found->second;
  if (!devices->contains(device)) {
    devices->emplace(device, open("cuda:" + std::to_string(device)));
  }
  return pools->try_emplace({device, stream}, devices->at(device), stream).first->second;
}

}  // namespace sluice::jax
