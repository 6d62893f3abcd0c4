#pragma once

#include <functional>
#include <vector>

#include "kernels/recurrent/cuda/cell_extras.h"
#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/fused_step.h"
#include "kernels/recurrent/cuda/lanes.h"
#include "kernels/recurrent/cuda/layout.h"
#include "kernels/recurrent/cuda/rung_rules.h"
#include "kernels/recurrent/recurrent.h"

/// The time loop on the GPU, written once: it queues products of cuBLASLt and pointwise kernels in
/// the way that a rung says.
namespace sluice::kernels::recurrent::cuda {

/// All that runs need.
struct Engine {
  Engine(const Descriptor& wanted, const Rung& way)
      : descriptor(wanted),
        rung(way),
        sizes(wanted),
        packed(book_packed(wanted, way)),
        reserve(book_reserve(wanted, way)),
        workspace(book_workspace(wanted, way)),
        lanes(lane_count(wanted, way)) {}

  Descriptor descriptor;
  Rung rung;
  Sizes sizes;
  PackedLayout packed;
  ReserveLayout reserve;
  WorkspaceLayout workspace;
  Lanes lanes;
};

/// One direction of a layer: step s of the loop is time t.
struct Walk {
  std::int64_t steps = 0;
  bool reverse = false;

  std::int64_t time_of(std::int64_t s) const { return reverse ? steps - 1 - s : s; }
  /// Row of a [steps + 1, ...] array of states that holds the state before step s.
  std::int64_t state_row(std::int64_t s) const { return reverse ? steps - s : s; }
};

/// Steps of the loop: [begin, end).
struct Piece {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

/// Rows of the batch.
struct RowRange {
  std::int64_t first, count;
};

/// Whether tensor copies can begin there.
bool can_copy(const void* data);

/// What one call is given.
struct Run {
  Engine& engine;
  const Context& context;
  const ForwardArgs& args;
  const Memory& memory;

  template <typename T>
  T* workspace(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory.workspace) + offset);
  }
  template <typename T>
  T* packed(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory.packed) + offset);
  }
  template <typename T>
  T* reserve(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory.reserve) + offset);
  }
  template <typename T>
  T* at(const ArrayPlace& place) const {
    const std::int64_t step = args.rows * engine.sizes.saved_width * engine.sizes.storage;
    const std::size_t offset =
        place.offset + (place.next_step ? static_cast<std::size_t>(step) : 0);
    return place.in_reserve ? reserve<T>(offset) : workspace<T>(offset);
  }
  /// The element at `index` of an array in storage.
  std::byte* element(std::byte* base, std::int64_t index) const {
    return base + index * engine.sizes.storage;
  }
  const std::byte* element(const std::byte* base, std::int64_t index) const {
    return base + index * engine.sizes.storage;
  }
  /// The same of a tensor; null if it is absent.
  std::byte* element(const Tensor& tensor, std::int64_t index) const {
    return tensor ? element(static_cast<std::byte*>(tensor.data()), index) : nullptr;
  }
  const std::int32_t* lengths() const { return args.lengths.data_as<const std::int32_t>(); }
  const std::int32_t* row_ids() const { return args.row_ids.data_as<const std::int32_t>(); }
  CellKind kind() const {
    return {engine.descriptor.cell, engine.descriptor.dtype, context.tf32(),
            engine.descriptor.hard_sigmoid};
  }

  /// How a step of this run is one kernel, if it is.
  std::optional<StepGeometry> fused_geometry(StepPass pass) const;

  /// Whether a layer's only step multiplies its input as well.
  bool joins_input(std::int64_t layer) const;
  /// Whether it does so as a step of many rows, or of few in float32: joined_step/.
  bool joins_many_rows(std::int64_t layer) const;
  bool joins_few_rows(std::int64_t layer) const;
  /// The states before the only step of training, where backward finds them as the caller gave
  /// them, so that none need be kept; else null.
  std::byte* lone_h0(std::int64_t layer, std::int64_t direction) const;
  float* lone_c0(std::int64_t layer, std::int64_t direction) const;

  /// What layer l reads, [time, rows, input_of(l)], and puts out.
  const std::byte* input_of(std::int64_t layer) const;
  std::byte* output_of(std::int64_t layer) const;
  /// Layers that are on the GPU at the same time, each with a launch for a piece of time; else one.
  std::int64_t abreast() const;
  /// Where the products of a layer's input are for the steps of a piece, [.., rows, D*G*H].
  float* input_products(std::int64_t layer, const Piece& piece) const;
  std::int64_t lane_of(std::int64_t layer, std::int64_t direction) const;
  /// The lane of the products of a layer's input and of what it gives the layer below.
  std::int64_t product_lane_of(std::int64_t layer) const;
  bool drops(std::int64_t layer) const {
    const Descriptor& descriptor = engine.descriptor;
    return descriptor.training && descriptor.dropout > 0 && layer + 1 < descriptor.layers;
  }
  /// Of the states after step s of a layer and direction, or before the first step with s = -1.
  StateRules rules(std::int64_t layer, std::int64_t direction, std::int64_t s) const;
  /// Which elements of the output of `layer` dropout keeps, from time t on, as bits that forward
  /// leaves for backward; null where each draws for itself.
  std::byte* kept(std::int64_t layer, std::int64_t t) const;
  /// Drops out the output of `layer`, values [.., rows, D*output] from time t on, and leaves the
  /// mask.
  void drop(cudaStream_t stream, std::int64_t layer, std::byte* values, std::int64_t t,
            std::int64_t steps) const;
  /// Only leaves the mask, of all times.
  void draw_mask(cudaStream_t stream, std::int64_t layer) const;
  /// As drop, of the output or its gradient, by the mask that has been left, if there are any.
  void drop_by_mask(cudaStream_t stream, std::int64_t layer, std::byte* values, std::int64_t t,
                    std::int64_t steps) const;
};

/// c [m, n] (+)= op(a) * op(b).
struct Factor {
  const void* data;
  std::int64_t stride;  ///< elements from a row to the next
  bool transposed = false;
};
struct Sum {
  void* data;
  std::int64_t stride;
  DType dtype;
  bool accumulate = false;
};
/// Several products, `stride_*` elements apart.
struct Products {
  std::int64_t count = 1;
  std::int64_t stride_a = 0, stride_c = 0, stride_b = 0;
};
void multiply(const Run& run, std::int64_t lane, std::int64_t m, std::int64_t n, std::int64_t k,
              const Factor& a, const Factor& b, const Sum& c, const Products& products = {});
/// The largest power of two up to 16 that divides all of them.
std::uint32_t alignment_of(std::initializer_list<const void*> pointers);

/// The factor that multiplies from the right with the transpose of rows [first, ..) of the
/// matrix, as forward does, or with those rows themselves, as backward does.
Factor forward_factor(const Run& run, const PackedMatrix& matrix, std::int64_t first = 0);
Factor backward_factor(const Run& run, const PackedMatrix& matrix, std::int64_t first = 0);

/// Calls work(layer, piece) for all pieces of all layers so that each comes after the same piece of
/// the layer before it, and what may run at the same time is queued alternately. `up`: from layer 0
/// on.
template <typename Work>
void for_pieces(const Engine& engine, std::int64_t time, bool up, const Work& work) {
  const std::int64_t layers = engine.sizes.layers;
  const std::int64_t steps = piece_steps(engine.descriptor, engine.rung, time);
  const std::int64_t pieces = (time + steps - 1) / steps;
  for (std::int64_t round = 0; round < pieces + layers - 1; ++round) {
    // The layer that comes last first: it must not wait for what its input's layer does this round.
    for (std::int64_t k = layers - 1; k >= 0; --k) {
      const std::int64_t piece = round - k;
      if (piece < 0 || piece >= pieces) continue;
      const Piece part{piece * steps, piece * steps + steps < time ? piece * steps + steps : time};
      work(up ? k : layers - 1 - k, part);
    }
  }
}

void run_pack(Engine& engine, const Context& context, const std::vector<LayerWeights>& weights,
              const Memory& memory);
void run_forward(Engine& engine, const Context& context, const ForwardArgs& args,
                 const Memory& memory);
void run_backward(Engine& engine, const Context& context, const BackwardArgs& args,
                  const Memory& memory);

/// Where a launch of forward goes: its lane, which of a run's launches it is, and how many share
/// the GPU.
struct LaunchPlace {
  std::int64_t lane, number, abreast = 1;
  cudaEvent_t begun = nullptr;  ///< LaunchQueue
};
/// Queues what launches of forward need before the first of them.
void prepare_launches(const Run& run, std::int64_t lane);
/// The steps that a piece of one layer has, or turns of backward, in one launch, between the
/// products of its input and those of its gradients. `begun`, `part`: LaunchQueue.
void run_persistent_layer(const Run& run, std::int64_t layer, const Piece& piece,
                          const LaunchPlace& place);
void run_persistent_layer(const Run& run, const BackwardArgs& args, std::int64_t layer,
                          const Piece& turns, cudaEvent_t begun = nullptr, int part = -1);

/// The caller's work on a lane.
void run_beside(const Run& run, std::int64_t lane, const OverlapWork& work);

/// Rows that each launch of a layer's backward is for, the last one perhaps for fewer.
std::int64_t launch_rows(const Run& run);

/// Whether await_turns can tell how far a launch of backward is.
bool can_await_turns(const Run& run);
/// What is queued on the lane from now on finds written what the launch of backward that has begun
/// writes in its first turns, at most all but two.
void await_turns(const Run& run, std::int64_t lane, std::int64_t turns);

/// Whether steps of all layers run together, each layer a step behind the one below.
bool joins_layers(const Run& run);
/// All steps of all layers that way, once the first one's input products are there.
void run_stack_steps(const Run& run);
/// The steps that a piece of one layer has, one after the other.
void run_steps(const Run& run, std::int64_t layer, const Piece& piece);
/// The turns of backward of one layer, a step after the other.
void run_steps_back(const Run& run, const BackwardArgs& args, std::int64_t layer,
                    const Piece& turns);

/// The weight gradients of one layer, once its gate gradients are there for both lanes.
void weight_gradients(const Run& run, const BackwardArgs& args, std::int64_t layer);
/// What queues the same in parts, in 16 bits so small that each is over within a launch of backward
/// that leaves it half of the GPU. `run` and `args` must live until all are queued.
std::vector<std::function<void()>> weight_gradient_parts(const Run& run, const BackwardArgs& args,
                                                         std::int64_t layer);

}  // namespace sluice::kernels::recurrent::cuda
