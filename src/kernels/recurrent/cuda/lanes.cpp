#include "kernels/recurrent/cuda/lanes.h"

#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda {

using runtime::cuda::check;

Lanes::Lanes(std::int64_t count) : sides_(static_cast<std::size_t>(count - 1)) {}

Lanes::~Lanes() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

CudaStream& Lanes::stream(std::int64_t lane) {
  return lane == 0 ? *main_ : *sides_[static_cast<std::size_t>(lane - 1)];
}

void Lanes::follow(std::int64_t waiter, std::int64_t leader) {
  if (waiter == leader) return;
  // A wait holds on to what was recorded when it was queued, so one event serves all.
  check(cudaEventRecord(event_, (*this)[leader]), "record a CUDA event");
  check(cudaStreamWaitEvent((*this)[waiter], event_), "wait for a CUDA event");
}

void Lanes::take(const Context& context) {
  if (event_ == nullptr) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "create a CUDA event");
  }
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    if (sides_[i] == nullptr) sides_[i] = &runtime::cuda::device_of(context).side_stream(i);
  }
}

void Lanes::begin(const Context& context) {
  take(context);
  main_ = &static_cast<CudaStream&>(context.stream());
  for (std::size_t i = 1; i <= sides_.size(); ++i) follow(static_cast<std::int64_t>(i), 0);
}

void Lanes::join() {
  for (std::size_t i = 1; i <= sides_.size(); ++i) follow(0, static_cast<std::int64_t>(i));
}

}  // namespace sluice::kernels::recurrent::cuda
