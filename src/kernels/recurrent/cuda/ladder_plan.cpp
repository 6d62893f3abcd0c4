#include "kernels/recurrent/cuda/ladder_plan.h"

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kernels/recurrent/arguments.h"
#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/replayed_runs.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

using runtime::cuda::CurrentDevice;
using runtime::cuda::gpu_of;

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
  // The alignment of TMA, which reads dy of wide layers if units are a multiple of eight.
  constexpr std::size_t kCopyBytes = 16;
  constexpr std::int64_t kCopiedUnits = 8;
  const Residence residence = engine.rung.backward;
  const bool copies =
      residence == Residence::kClusterWgmma ||
      (residence == Residence::kWide && engine.descriptor.hidden % kCopiedUnits == 0);
  require_aligned("dy", args.dy,
                  copies ? kCopyBytes : alignment_for(residence, engine.descriptor, args.dy));
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
    runtime::cuda::blas_of(context);
    static_cast<CudaStream&>(context.stream()).workspace();
    engine_.lanes.take(context);
    run_pack(engine_, context, weights, memory);
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory);
    check_forward(engine_.descriptor, args);
    require_aligned(engine_, args);
    const auto queue = [&](const ForwardArgs& run) { run_forward(engine_, context, run, memory); };
    if (engine_.rung.graph) return replayed_.forward(context, args, memory, queue);
    const CurrentDevice current(gpu_of(context.stream()).ordinal);
    queue(args);
  }

  void backward(const Context& context, const BackwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory);
    check_backward(engine_.descriptor, args);
    require_aligned(engine_, args);
    const auto queue = [&](const BackwardArgs& run) {
      run_backward(engine_, context, run, memory);
    };
    if (engine_.rung.graph) return replayed_.backward(context, args, memory, queue);
    const CurrentDevice current(gpu_of(context.stream()).ordinal);
    queue(args);
  }

 private:
  Engine engine_;
  ReplayedRuns replayed_;
};

}  // namespace

std::unique_ptr<Plan> make_ladder_plan(const Descriptor& descriptor, const Rung& rung) {
  return std::make_unique<LadderPlan>(descriptor, rung);
}

}  // namespace sluice::kernels::recurrent::cuda
