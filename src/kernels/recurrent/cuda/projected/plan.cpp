#include "kernels/recurrent/cuda/projected/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/recurrent/arguments.h"
#include "kernels/recurrent/cuda/projected/block_memory.h"
#include "kernels/recurrent/cuda/projected/kernels.h"
#include "kernels/recurrent/cuda/projected/layout.h"
#include "kernels/recurrent/cuda/projected/prepare_kernels.h"
#include "kernels/recurrent/cuda/replayed_runs.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/current_device.h"
#include "runtime/span.h"

namespace sluice::kernels::recurrent::cuda::projected {
namespace {

using runtime::cuda::check;
using runtime::cuda::CudaDevice;
using runtime::cuda::CurrentDevice;
using runtime::cuda::gpu_of;
using runtime::cuda::handle_of;

const void* kernel_of(DType storage, std::int64_t octets) {
  return kernels_of(
      storage)[static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(octets)))];
}

/// A launch whose blocks all run at once or not at all, and begin before the kernel ahead of them
/// has ended.
struct Configuration {
  std::array<cudaLaunchAttribute, 3> attributes{};
  cudaLaunchConfig_t launch{};

  Configuration(std::int64_t blocks, std::int64_t bytes) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {kCluster, 1, 1};
    attributes[1].id = cudaLaunchAttributeCooperative;
    attributes[1].val.cooperative = 1;
    attributes[2].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[2].val.programmaticStreamSerializationAllowed = 1;
    launch.gridDim = static_cast<unsigned>(blocks);
    launch.blockDim = kThreads;
    launch.dynamicSmemBytes = static_cast<std::size_t>(bytes);
    launch.attrs = attributes.data();
    launch.numAttrs = static_cast<unsigned>(attributes.size());
  }
  Configuration(const Configuration&) = delete;
  Configuration& operator=(const Configuration&) = delete;
};

/// The most tiles for which it pays to stream the weights again for each tile: measured.
constexpr std::int64_t kMostTilesOfStreamed = 2;

/// Allows all memory that a block may have, so that one plan does not lower another's limit.
void allow(const void* kernel, std::int64_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "allow a recurrent kernel its shared memory");
}

/// One layer's weights and memory of a run, where a launch wants them.
struct Binding {
  const Descriptor& descriptor;
  const ForwardArgs& args;
  const Memory& memory;
  const PackedLayout& packed;
  const WorkspaceLayout& workspace;
  const Tiles& tiles;
  const Residence& residence;

  template <typename U>
  U* in_packed(std::size_t offset) const {
    return reinterpret_cast<U*>(static_cast<std::byte*>(memory.packed) + offset);
  }
  template <typename U>
  U* in_workspace(std::size_t offset) const {
    return reinterpret_cast<U*>(static_cast<std::byte*>(memory.workspace) + offset);
  }
  /// The layer's part of a tensor of all of them, from its first element on.
  template <typename U>
  U* part(const Tensor& tensor, std::int64_t first) const {
    if (!tensor) return nullptr;
    const auto bytes = static_cast<std::size_t>(first) * base::size_of(tensor.dtype());
    return reinterpret_cast<U*>(static_cast<std::byte*>(tensor.data()) + bytes);
  }

  Layer layer(std::int64_t l) const {
    const auto i = static_cast<std::size_t>(l);
    const PackedLayout::Layer& weights = packed.layers[i];
    const WorkspaceLayout::Layer& own = workspace.layers[i];
    const std::int64_t h = descriptor.h_offset(l, args.rows);
    const std::int64_t c = l * args.rows * descriptor.hidden;
    Layer layer{};
    layer.gates = in_packed<const std::byte>(weights.gates);
    layer.projection = in_packed<const std::byte>(weights.projection);
    layer.bias = in_packed<const float>(weights.bias);
    layer.input_pieces = static_cast<std::int32_t>(pieces_of(descriptor.input_of(l)));
    layer.state_pieces = static_cast<std::int32_t>(pieces_of(descriptor.output_of(l)));
    layer.output = static_cast<std::int32_t>(descriptor.output_of(l));
    layer.state = in_workspace<std::byte>(own.state);
    layer.units = in_workspace<std::byte>(own.units);
    layer.cells = in_workspace<float>(own.cells);
    layer.units_done = in_workspace<std::uint32_t>(own.units_done);
    layer.state_done = in_workspace<std::uint32_t>(own.state_done);
    if (l == 0) {
      layer.input = in_workspace<const std::byte>(workspace.input);
    } else {
      // What the layer below puts out at time t is its state before t + 1.
      const WorkspaceLayout::Layer& below = workspace.layers[i - 1];
      layer.input = in_workspace<const std::byte>(below.state) +
                    tiles.count * tiles.octets * layer.input_pieces * kPieceBytes;
      layer.input_done = in_workspace<const std::uint32_t>(below.state_done);
    }
    const int groups = layer.depths() / group_depths(static_cast<int>(tiles.octets));
    layer.kept = static_cast<std::int32_t>(kept_groups(groups, tiles.octets));
    layer.resident = std::min(groups - layer.kept, static_cast<int>(residence.resident));
    layer.streamed = groups - layer.kept - layer.resident;
    layer.ring = static_cast<std::int32_t>(residence.weight_ring);
    // With several tiles a layer waits long for the first of the one below.
    if (l > 0 && tiles.count > 1) layer.put_off = layer.input_pieces / 2;
    // The second needs its weights when the first one's first tile is done.
    layer.late = l > 1 && tiles.count > 1;
    layer.one_by_one = l + 1 < descriptor.layers && goes_one_by_one();
    layer.h0 = part<const void>(args.h0, h);
    layer.hn = part<void>(args.hn, h);
    layer.c0 = part<const float>(args.c0, c);
    layer.cn = part<float>(args.cn, c);
    layer.c_sequence = part<float>(args.c_sequence, c * args.time);
    layer.y = args.y.data();
    return layer;
  }

  /// Whether tiles should go one by one below the last layer. A layer then begins sooner by the
  /// time of a tile's gates. In return, each tile waits for its values in each step, which travel a
  /// quarter of that time (docs/performance/projected.md).
  bool goes_one_by_one() const {
    constexpr std::int64_t kSooner = 3;
    return args.time * tiles.count <= kSooner * (descriptor.layers - 1) * (tiles.count - 1);
  }

  Stack stack() const {
    Stack stack{};
    for (std::int64_t l = 0; l < descriptor.layers; ++l) stack.layers[l] = layer(l);
    stack.blocks = static_cast<std::int32_t>(blocks_of(descriptor));
    stack.time = static_cast<std::int32_t>(args.time);
    stack.rows = static_cast<std::int32_t>(args.rows);
    stack.hidden = static_cast<std::int32_t>(descriptor.hidden);
    stack.tiles = static_cast<std::int32_t>(tiles.count);
    stack.ring = static_cast<std::int32_t>(residence.ring);
    stack.weight_ring = static_cast<std::int32_t>(residence.weight_ring);
    stack.resident = static_cast<std::int32_t>(residence.resident);
    stack.lengths = args.lengths.data_as<const std::int32_t>();
    return stack;
  }

  Arrange arrangement(const Stack& stack) const {
    Arrange arrange{};
    arrange.rows = stack.rows;
    arrange.tiles = stack.tiles;
    arrange.octets = static_cast<std::int32_t>(tiles.octets);
    arrange.counters = in_workspace<std::uint32_t>(workspace.counters);
    arrange.counter_words = static_cast<std::int32_t>(workspace.counter_bytes / 4);
    arrange.parts[0] = {args.x.data(), in_workspace<std::byte>(workspace.input),
                        static_cast<std::int32_t>(descriptor.input), stack.layers[0].input_pieces,
                        stack.time};
    arrange.count = 1;
    for (std::int64_t l = 0; l < descriptor.layers; ++l) {
      const Layer& layer = stack.layers[l];
      arrange.parts[arrange.count++] = {layer.h0, layer.state, layer.output, layer.state_pieces, 1};
    }
    return arrange;
  }
};

class ProjectedPlan final : public Plan {
 public:
  ProjectedPlan(const Descriptor& descriptor, std::int64_t shared_bytes)
      : descriptor_(descriptor),
        shared_bytes_(shared_bytes),
        packed_(descriptor),
        workspace_bytes_(WorkspaceLayout(descriptor, descriptor.time, descriptor.rows).bytes) {
    for (std::int64_t octets = Tiles(descriptor.rows).octets; octets > 0; octets /= 2) {
      allow(kernel_of(descriptor.dtype, octets), shared_bytes);
    }
  }

  std::string_view implementation() const override { return kName; }
  std::size_t packed_bytes() const override { return packed_.bytes; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::size_t reserve_bytes() const override { return 0; }

  void pack(const Context& context, const std::vector<LayerWeights>& weights,
            const Memory& memory) override {
    check_memory(*this, memory);
    check_weights(descriptor_, weights);
    const CurrentDevice current(gpu_of(context.stream()).ordinal);
    auto* packed = static_cast<std::byte*>(memory.packed);
    for (std::size_t l = 0; l < weights.size(); ++l) {
      const auto layer = static_cast<std::int64_t>(l);
      PackWeights args{};
      args.weight_ih = weights[l].weight_ih.data_as<const float>();
      args.weight_hh = weights[l].weight_hh.data_as<const float>();
      args.weight_hr = weights[l].weight_hr.data_as<const float>();
      args.bias_ih = weights[l].bias_ih.data_as<const float>();
      args.bias_hh = weights[l].bias_hh.data_as<const float>();
      args.input = static_cast<std::int32_t>(descriptor_.input_of(layer));
      args.output = static_cast<std::int32_t>(descriptor_.output_of(layer));
      args.hidden = static_cast<std::int32_t>(descriptor_.hidden);
      args.input_pieces = static_cast<std::int32_t>(pieces_of(args.input));
      args.state_pieces = static_cast<std::int32_t>(pieces_of(args.output));
      args.blocks = static_cast<std::int32_t>(blocks_of(descriptor_));
      args.gates = packed + packed_.layers[l].gates;
      args.projection = packed + packed_.layers[l].projection;
      args.bias = reinterpret_cast<float*>(packed + packed_.layers[l].bias);
      pack_weights(handle_of(context.stream()), descriptor_.dtype, args);
    }
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory);
    check_forward(descriptor_, args);
    // The host takes longer to queue both kernels than the GPU for the first.
    replayed_.forward(context, args, memory,
                      [&](const ForwardArgs& run) { queue(context, run, memory); });
  }

  void backward(const Context&, const BackwardArgs& args, const Memory&) override {
    check_backward(descriptor_, args);  // which refuses a plan for inference
  }

 private:
  void queue(const Context& context, const ForwardArgs& args, const Memory& memory) const {
    const cudaStream_t stream = handle_of(context.stream());
    const WorkspaceLayout workspace(descriptor_, args.time, args.rows);
    const Tiles tiles(args.rows);
    const Residence residence = residence_of(descriptor_, tiles.octets, shared_bytes_);
    const Binding binding{descriptor_, args, memory, packed_, workspace, tiles, residence};
    Stack stack = binding.stack();
    arrange(stream, binding.arrangement(stack));
    const void* kernel = kernel_of(descriptor_.dtype, tiles.octets);
    const std::int64_t bytes = shared_bytes_of(descriptor_, tiles.octets, residence);
    Configuration configuration(descriptor_.layers * stack.blocks, bytes);
    configuration.launch.stream = stream;
    void* values[]{&stack};
    check(cudaLaunchKernelExC(&configuration.launch, kernel, values),
          "queue the kernel of projected layers");
  }

  Descriptor descriptor_;
  std::int64_t shared_bytes_;
  PackedLayout packed_;
  std::size_t workspace_bytes_;
  ReplayedRuns replayed_;
};

/// The reason if this GPU doesn't run all blocks of a launch with such tiles at once. `octets`:
/// rows of a tile, in eights.
std::optional<std::string> refuse_blocks(const Descriptor& descriptor, std::int64_t octets,
                                         const runtime::cuda::GpuProperties& gpu) {
  const Residence residence =
      residence_of(descriptor, octets, static_cast<std::int64_t>(gpu.shared_bytes));
  if (residence.resident < 0) {
    return fmt::format("a block of this GPU can't hold a projection of {} units",
                       descriptor.hidden);
  }
  const std::int64_t blocks = descriptor.layers * blocks_of(descriptor);
  const std::int64_t bytes = shared_bytes_of(descriptor, octets, residence);
  const void* kernel = kernel_of(descriptor.dtype, octets);
  allow(kernel, static_cast<std::int64_t>(gpu.shared_bytes));
  const Configuration configuration(blocks, bytes);
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &configuration.launch),
        "ask how many clusters of a recurrent kernel run at once");
  if (clusters * kCluster >= blocks) return std::nullopt;
  return fmt::format("{} layers of {} units take {} blocks, and this GPU runs {} at once",
                     descriptor.layers, descriptor.hidden, blocks, clusters * kCluster);
}

}  // namespace

std::optional<std::string> refuse(const Descriptor& descriptor, const runtime::Device& device) {
  const auto& gpu = static_cast<const CudaDevice&>(device).gpu();
  if (!descriptor.projects()) return "it is for layers with projections";
  if (!gpu.code.hopper) {
    return "it needs a GPU of compute capability 9.0 that runs kernels compiled for it";
  }
  if (descriptor.dtype != DType::kBFloat16 && descriptor.dtype != DType::kFloat16) {
    return "it computes bfloat16 and float16";
  }
  if (descriptor.training) return "it is for inference";
  if (descriptor.directions != 1) return "it has one direction";
  if (auto reason = refuse_extras(descriptor)) return reason;
  if (descriptor.layers > kMostLayers) {
    return fmt::format("it has at most {} layers", kMostLayers);
  }
  const std::int64_t blocks = blocks_of_units(descriptor.hidden);
  if (descriptor.widest_output() > blocks * kFeatures) {
    return fmt::format("{} blocks of a layer have 16 features each, not {} in all", blocks,
                       descriptor.widest_output());
  }
  constexpr std::int64_t kMostElements = std::int64_t{1} << 31;
  if (descriptor.time * descriptor.rows * std::max(descriptor.hidden, descriptor.input) >=
      kMostElements) {
    return "it counts times, rows and units in 32 bits";
  }
  const CurrentDevice current(gpu.ordinal);
  const Tiles tiles(descriptor.rows);
  for (std::int64_t octets = tiles.octets; octets > 0; octets /= 2) {
    if (auto reason = refuse_blocks(descriptor, octets, gpu)) return reason;
  }
  const Residence residence =
      residence_of(descriptor, kMostOctets, static_cast<std::int64_t>(gpu.shared_bytes));
  if (tiles.count > kMostTilesOfStreamed && residence.weight_ring > 0) {
    return fmt::format(
        "its blocks have no place for {} features of input and state, and would read weights for "
        "every {} rows",
        32 * deepest(descriptor), 8 * kMostOctets);
  }
  return std::nullopt;
}

// Weights that don't fit in a block are streamed in each step, so beyond some width the launch
// reads no less than the products of `graph`.
std::optional<std::string> slower_than_graph(const Descriptor& descriptor) {
  constexpr std::int64_t kFewRows = 16;
  const std::int64_t most = descriptor.rows > kFewRows ? 64 : 48;
  if (deepest(descriptor) <= most) return std::nullopt;
  return fmt::format("with {} features of input and state in a layer, products are faster",
                     32 * deepest(descriptor));
}

std::unique_ptr<Plan> make_plan(const Descriptor& descriptor, const runtime::Device& device) {
  const auto& gpu = static_cast<const CudaDevice&>(device).gpu();
  const CurrentDevice current(gpu.ordinal);
  return std::make_unique<ProjectedPlan>(descriptor, static_cast<std::int64_t>(gpu.shared_bytes));
}

}  // namespace sluice::kernels::recurrent::cuda::projected
