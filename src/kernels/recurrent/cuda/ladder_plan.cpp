#include "kernels/recurrent/cuda/ladder_plan.h"

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/check.h"
#include "kernels/recurrent/arguments.h"
#include "kernels/recurrent/cuda/engine.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/current_device.h"
#include "runtime/graph_cache.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

using runtime::cuda::check;
using runtime::cuda::CurrentDevice;
using runtime::cuda::gpu_of;
using runtime::cuda::handle_of;

bool is_capturing(const Context& context) {
  const CurrentDevice current(gpu_of(context.stream()).ordinal);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(handle_of(context.stream()), &status),
        "ask whether a CUDA stream is being captured");
  return status != cudaStreamCaptureStatusNone;
}

/// Collects what a graph holds on to.
class KeyWriter {
 public:
  void add(std::int64_t number) { key_.push_back(static_cast<std::uint64_t>(number)); }
  void add(const void* address) { key_.push_back(runtime::key_of(address)); }
  void add(std::initializer_list<Tensor> tensors) {
    for (const Tensor& tensor : tensors) add(tensor.data());
  }
  void add(const Memory& memory) {
    add(memory.packed);
    add(memory.workspace);
    add(memory.reserve);
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

void require_aligned(std::string_view name, const Tensor& tensor, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(tensor.data()) % bytes == 0) return;
  base::fail(
      ErrorCode::kInvalidArgument,
      "{} of a recurrent layer begins at an address that is no multiple of {} bytes; copy it "
      "to one that is",
      name, bytes);
}

/// Where arrays of the caller's have to begin for a launch to access them. Launches over the whole
/// GPU do so two units at a time.
std::size_t alignment_for(Residence residence, const Descriptor& descriptor, const Tensor& tensor) {
  const bool pairs = residence == Residence::kWide || residence == Residence::kStreamed;
  return pairs && tensor && descriptor.hidden % 2 == 0 ? 2 * base::size_of(tensor.dtype()) : 1;
}
void require_aligned(const Engine& engine, const ForwardArgs& args) {
  const auto require = [&](std::string_view name, const Tensor& tensor) {
    require_aligned(name, tensor, alignment_for(engine.rung.forward, engine.descriptor, tensor));
  };
  require("y", args.y);
  require("c_sequence", args.c_sequence);
}
void require_aligned(const Engine& engine, const BackwardArgs& args) {
  // The copy engine's.
  constexpr std::size_t kCopyBytes = 16;
  const Residence residence = engine.rung.backward;
  require_aligned("dy", args.dy,
                  residence == Residence::kClusterWgmma
                      ? kCopyBytes
                      : alignment_for(residence, engine.descriptor, args.dy));
}

class LadderPlan final : public Plan {
 public:
  LadderPlan(const Descriptor& descriptor, const Rung& rung) : engine_(descriptor, rung) {}

  std::string_view implementation() const override { return engine_.rung.name; }
  std::size_t packed_bytes() const override { return engine_.packed.bytes; }
  std::size_t workspace_bytes() const override { return engine_.workspace.bytes; }
  std::size_t reserve_bytes() const override { return engine_.reserve.bytes; }

  void pack(const Context& context, const std::vector<LayerWeights>& weights,
            const Memory& memory) override {
    check_memory(*this, memory);
    check_weights(engine_.descriptor, weights);
    const CurrentDevice current(gpu_of(context.stream()).ordinal);
    // What runs must not take while they are captured.
    runtime::cuda::device_of(context).blas();
    static_cast<CudaStream&>(context.stream()).workspace();
    engine_.lanes.take(context);
    run_pack(engine_, context, weights, memory);
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory);
    check_forward(engine_.descriptor, args);
    require_aligned(engine_, args);
    KeyWriter key;
    key.add(std::int64_t{context.tf32() ? 1 : 0});
    key.add(&context.stream());  // whose workspace a graph holds on to
    key.add(memory);
    key.add(args);
    ForwardArgs queued = args;
    // A graph would queue once more what the caller wanted when it was captured.
    if (replays(context)) queued.beside = nullptr;
    run(context, key.key(), [&] { run_forward(engine_, context, queued, memory); });
  }

  void backward(const Context& context, const BackwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory);
    check_backward(engine_.descriptor, args);
    require_aligned(engine_, args);
    KeyWriter key;
    key.add(std::int64_t{context.tf32() ? 3 : 2});
    key.add(&context.stream());
    key.add(memory);
    key.add(args);
    BackwardArgs queued = args;
    if (replays(context)) queued.beside = nullptr;
    run(context, key.key(), [&] { run_backward(engine_, context, queued, memory); });
  }

 private:
  /// Whether runs are graphs. Whoever captures a whole step gets the operations themselves.
  bool replays(const Context& context) const {
    return engine_.rung.graph && !is_capturing(context);
  }

  void run(const Context& context, const runtime::GraphKey& key,
           const std::function<void()>& work) {
    const CurrentDevice current(gpu_of(context.stream()).ordinal);
    if (!replays(context)) return work();
    static_cast<CudaStream&>(context.stream()).workspace();
    graphs_.run(context.stream(), key, work);
  }

  Engine engine_;
  /// Whoever runs a plan on fresh addresses each time gains nothing from graphs; who turns a few
  /// sets of buffers does.
  static constexpr std::size_t kMostGraphs = 64;
  runtime::GraphCache graphs_{kMostGraphs};
};

}  // namespace

std::unique_ptr<Plan> make_ladder_plan(const Descriptor& descriptor, const Rung& rung) {
  return std::make_unique<LadderPlan>(descriptor, rung);
}

}  // namespace sluice::kernels::recurrent::cuda
