#include "kernels/recurrent/cuda/replayed_runs.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <initializer_list>

#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

using runtime::cuda::check;
using runtime::cuda::CurrentDevice;
using runtime::cuda::gpu_of;
using runtime::cuda::handle_of;

bool is_capturing(const Context& context) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(handle_of(context.stream()), &status),
        "ask whether a CUDA stream is being captured");
  return status != cudaStreamCaptureStatusNone;
}

/// Collects what a graph holds on to.
class KeyWriter {
 public:
  KeyWriter(const Context& context, const Memory& memory, std::int64_t pass) {
    add(pass);
    add(std::int64_t{context.tf32()});
    add(&context.stream());  // whose workspace a graph holds on to
    add(memory.packed);
    add(memory.workspace);
    add(memory.reserve);
  }

  void add(std::int64_t number) { key_.push_back(static_cast<std::uint64_t>(number)); }
  void add(const void* address) { key_.push_back(runtime::key_of(address)); }
  void add(std::initializer_list<Tensor> tensors) {
    for (const Tensor& tensor : tensors) add(tensor.data());
  }
  void add(const ForwardArgs& args) {
    add(args.time);
    add(args.rows);
    add(static_cast<std::int64_t>(args.dropout.seed));
    add(args.dropout.step);
    add(std::int64_t{args.dropout.stream});
    add({args.x, args.lengths, args.h0, args.c0, args.y, args.hn, args.cn, args.c_sequence,
         args.row_ids, args.resets});
  }
  void add(const BackwardArgs& args) {
    add(args.forward);
    add({args.dy, args.dhn, args.dcn, args.dx, args.dh0, args.dc0});
    for (const LayerWeights& layer : args.gradients) {
      for (Tensor LayerWeights::*tensor : kLayerTensors) add((layer.*tensor).data());
    }
    add(std::int64_t{args.accumulate});
  }
  const runtime::GraphKey& key() const { return key_; }

 private:
  runtime::GraphKey key_;
};

}  // namespace

template <typename Args>
void ReplayedRuns::run(const Context& context, const Args& args, const Memory& memory,
                       std::int64_t pass, const std::function<void(const Args&)>& queue) {
  const CurrentDevice current(gpu_of(context.stream()).ordinal);
  if (is_capturing(context)) return queue(args);
  KeyWriter key(context, memory, pass);
  key.add(args);
  graphs_.run(context.stream(), key.key(), [&] {
    Args alone = args;
    alone.overlap_work = nullptr;
    queue(alone);
  });
}

void ReplayedRuns::forward(const Context& context, const ForwardArgs& args, const Memory& memory,
                           const std::function<void(const ForwardArgs&)>& queue) {
  run(context, args, memory, 0, queue);
}

void ReplayedRuns::backward(const Context& context, const BackwardArgs& args, const Memory& memory,
                            const std::function<void(const BackwardArgs&)>& queue) {
  run(context, args, memory, 1, queue);
}

}  // namespace sluice::kernels::recurrent::cuda
