#pragma once

#include <vector>

#include "runtime/cuda/cuda_device.h"

namespace sluice::kernels::recurrent::cuda {

using runtime::Context;
using runtime::cuda::CudaStream;

/// The streams that a run is spread over: lane 0 is the caller's, the others are its side streams.
/// Work on them forks from lane 0 and joins it again, so that it can be captured in a graph.
class Lanes {
 public:
  /// `count` lanes in all.
  explicit Lanes(std::int64_t count);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// Takes what must not be taken while a stream is captured.
  void take(const Context& context);
  /// Makes the context's stream lane 0 and starts the others behind it.
  void begin(const Context& context);
  /// Lane 0 waits for the others.
  void join();
  /// What is queued on lane `waiter` from now on waits for what lane `leader` has been given.
  void follow(std::int64_t waiter, std::int64_t leader);

  /// What follow_mark() waits for: what the lane has been given by now.
  void mark(std::int64_t lane);
  void follow_mark(std::int64_t waiter);

  /// For the next launch of many steps (LaunchQueue).
  cudaEvent_t begun() const { return begun_; }
  /// What is queued on lane `waiter` from now on begins when all blocks of the launch that was
  /// given begun() have, or later. That is all: what the launch waits for, `waiter` must follow
  /// too.
  void follow_begun(std::int64_t waiter);

  CudaStream& stream(std::int64_t lane);
  cudaStream_t operator[](std::int64_t lane) { return stream(lane).handle(); }

 private:
  CudaStream* main_ = nullptr;
  std::vector<CudaStream*> sides_;
  cudaEvent_t event_ = nullptr, mark_ = nullptr, begun_ = nullptr;
  cudaStream_t gate_ = nullptr;
};

}  // namespace sluice::kernels::recurrent::cuda
