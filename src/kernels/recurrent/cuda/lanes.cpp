#include "kernels/recurrent/cuda/lanes.h"

#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda {

using runtime::cuda::check;

Lanes::Lanes(std::int64_t count) : sides_(static_cast<std::size_t>(count - 1)) {}

Lanes::~Lanes() {
  if (event_ != nullptr) cudaEventDestroy(event_);
  if (mark_ != nullptr) cudaEventDestroy(mark_);
  if (begun_ != nullptr) cudaEventDestroy(begun_);
  if (gate_ != nullptr) cudaStreamDestroy(gate_);
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

void Lanes::mark(std::int64_t lane) {
  check(cudaEventRecord(mark_, (*this)[lane]), "record a CUDA event");
}

void Lanes::follow_mark(std::int64_t waiter) {
  check(cudaStreamWaitEvent((*this)[waiter], mark_), "wait for a CUDA event");
}

void Lanes::follow_begun(std::int64_t waiter) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(gate_, &status), "ask whether a CUDA stream is being captured");
  if (status == cudaStreamCaptureStatusActive) {
    // In a graph only a kernel can wait for that, and one that waits for anything else besides may
    // not begin before the launch has ended.
    check(cudaStreamUpdateCaptureDependencies(gate_, nullptr, nullptr, 0,
                                              cudaStreamSetCaptureDependencies),
          "forget what a captured CUDA stream has waited for");
  }
  check(cudaStreamWaitEvent(gate_, begun_), "wait for a CUDA event");
  pass(gate_);
  check(cudaEventRecord(event_, gate_), "record a CUDA event");
  check(cudaStreamWaitEvent((*this)[waiter], event_), "wait for a CUDA event");
}

void Lanes::take(const Context& context) {
  for (cudaEvent_t* event : {&event_, &mark_, &begun_}) {
    if (*event != nullptr) continue;
    check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "create a CUDA event");
  }
  if (gate_ == nullptr && !sides_.empty()) {
    check(cudaStreamCreateWithFlags(&gate_, cudaStreamNonBlocking), "create a CUDA stream");
  }
  auto& stream = static_cast<CudaStream&>(context.stream());
  for (std::size_t i = 0; i < sides_.size(); ++i) sides_[i] = &stream.side(i);
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
