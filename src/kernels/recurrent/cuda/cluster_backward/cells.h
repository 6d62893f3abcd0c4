#pragma once

#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/cluster_backward/block.h"
#include "kernels/recurrent/cuda/cluster_backward/cell_place.h"
#include "kernels/recurrent/cuda/cluster_backward/clear.h"
#include "kernels/recurrent/cuda/cluster_backward/row_bounds.h"
#include "kernels/recurrent/cuda/cluster_backward/sums.h"
#include "kernels/recurrent/cuda/load_order.h"
#include "kernels/recurrent/cuda/storage.h"
#include "kernels/recurrent/cuda/tensor_copy.h"

/// The cells of a backward step. Of a chunk a thread has two units of one row.
namespace sluice::kernels::recurrent::cuda::cluster_backward {

template <typename Cell, typename Arithmetic, typename Shape>
class Cells {
  static_assert(Cell::kHasCellState && Cell::kGates == 4);
  static constexpr bool kScaled = Arithmetic::kScaled;
  using T = typename Arithmetic::Storage;
  using Factor = typename Arithmetic::Factor;
  using Memory = BlockMemory<Shape, sizeof(T)>;
  using Inputs = typename Memory::Inputs;
  struct State {
    float c[2], dc[2];  ///< of the state after the step (of scaled ones not kept), and its gradient
  };
  /// What dh, dc and the gradients of gates are made of: all that doesn't wait for sums.
  struct Factors {
    float dh[2], dc_of_dh[2], gates[4][2], dc_before[2];
    float reach;  ///< how far dc reaches, where gradients are scaled (row_bounds.h)
    bool active;
  };

 public:
  __device__ Cells(const LaunchArgs& launch, const Part& part, int steps, std::byte* shared)
      : launch_(launch),
        args_(launch.layer),
        reversed_(part.direction == 1),
        steps_(steps),
        shared_(shared_address(shared)),
        cell_(CellAt::of<Memory>(thread() / 32, thread() % 32)),
        length_(reinterpret_cast<const int*>(shared + Memory::kLengths)[cell_.row()]) {
    if constexpr (kScaled) {
      unscale_weights_ = persistent::Scale(*args_.largest[part.direction]).down;
      norm_ = kDhShare * norm_behind<Shape>(args_.weights[part.direction]);
    }
  }

  __device__ void run() {
    if (thread() == 0) {
      for (int slot = 0; slot < kPartSlots; ++slot) expect_parts(slot);
      for (int turn = 0; kScaled && turn < 2; ++turn) expect_bounds(turn);
    }
    State states[Shape::kChunks];
#pragma unroll
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) states[chunk] = begin(chunk);
    if constexpr (kScaled) GateSums<Arithmetic, Shape>::arrive_from_cells();
    Factors factors{};
    if (steps_ > 0) factors = receive(0, 0, states[0]);
    for (int turn = 0; turn < steps_; ++turn) {
#pragma unroll 1
      for (int chunk = 0; chunk < Shape::kChunks; ++chunk) evaluate(turn, chunk, factors, states);
    }
    if constexpr (kScaled) unscale_ = reciprocal_of_power(up_);
#pragma unroll 1
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      float2 sums{0, 0};
      if (args_.dh0 && steps_ > 0) {
        sums = receive_sums(steps_ - 1, chunk);
        tell_senders(steps_ - 1, chunk);
      }
      finish(chunk, sums, states[0]);
      turn_around(states);
    }
    clear_gates<Factor, Shape>(launch_, part(), steps_, thread());
  }

 private:
  struct Gates {
    std::uint32_t pairs[4];
    float reach;  ///< where they are scaled
  };

  /// The next chunk's come to the front, so that all stay in registers.
  __device__ static void turn_around(State (&states)[Shape::kChunks]) {
    const State first = states[0];
#pragma unroll
    for (int i = 1; i < Shape::kChunks; ++i) states[i - 1] = states[i];
    states[Shape::kChunks - 1] = first;
  }

  /// A step of a chunk, with the factors of its cells; takes those of the next chunk's. What the
  /// products don't wait for comes first only if there is no room yet for gradients of the gates.
  __device__ void evaluate(int turn, int chunk, Factors& factors, State (&states)[Shape::kChunks]) {
    if constexpr (kScaled) {
      if (chunk == 0) take_scale(turn);
    }
    float2 sums{0, 0};
    if (turn > 0) sums = receive_sums(turn - 1, chunk);
    const Gates gates = step(chunk, turn, factors, sums, states[0]);
    turn_around(states);
    const bool waits =
        turn > 0 && !__all_sync(~0u, has_passed(barriers().gates_empty(chunk), (turn - 1) & 1));
    const auto go_on = [&]() {
      if (turn > 0) tell_senders(turn - 1, chunk);
      const bool last = chunk == Shape::kChunks - 1;
      if (!last || turn + 1 < steps_) {
        factors = receive(last ? 0 : chunk + 1, last ? turn + 1 : turn, states[0]);
      }
    };
    if (waits) {
      go_on();
      wait_for_phase(barriers().gates_empty(chunk), (turn - 1) & 1);
    }
    // Of the turn before last have been taken, by who let go of that one's gradients.
    if constexpr (kScaled) {
      tell_reach(shared_ + Memory::kReaches + (turn + 1) % 2 * Memory::kBoundBytes, cell_.row(),
                 gates.reach);
    }
    hand_on(chunk, gates);
    if (!waits) go_on();
  }

  __device__ void hand_on(int chunk, const Gates& gates) const {
    const std::uint32_t to =
        in_lines_of_64(shared_ + Memory::kGates + chunk * Memory::kChunkBytes + cell_.place);
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + g * Memory::kGateBytes), "r"(gates.pairs[g])
                   : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    arrive(barriers().gates_full(chunk));
  }

  /// Of all blocks, of whose rows each has a number.
  __device__ void expect_bounds(int turn) const {
    arrive_and_expect(barriers().bounds_full(turn), Memory::kTurnBoundBytes);
  }
  /// The row's scale for a turn, and what takes that of the turn before back from its products.
  __device__ void take_scale(int turn) {
    wait_for_phase(barriers().bounds_full(turn), turn / 2 % 2);
    if (thread() == 0) expect_bounds(turn);
    unscale_ = reciprocal_of_power(up_);
    const persistent::Scale scale = scale_of_row<Memory, Shape>(shared_, turn, cell_.row());
    up_ = scale.up;
    if (part().block != 0 || cell_.unit() != 0 || !has(0)) return;
    const int time = time_of(turn);
    launch_.row_scales[static_cast<std::int64_t>(time) * args_.extent.rows + part().first_row +
                       cell_.row()] = time < length_ ? scale.down : 0.0f;
  }

  /// Of all blocks, of which the engine counts the bytes.
  __device__ void expect_parts(int chunk) const {
    arrive_and_expect(barriers().parts_full(chunk),
                      Shape::kBlocks * (kChunkUnits / kSliceUnits) * Memory::kSliceBytes);
  }

  __device__ static int thread() {
    // Not threadIdx, so that it isn't kept in a register.
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread - 32 * kProductWarps;
  }
  __device__ Barriers<Shape> barriers() const { return {shared_ + Memory::kBarriers}; }
  __device__ Part part() const { return Part::of<Shape>(launch_); }
  __device__ int time_of(int turn) const { return reversed_ ? turn : steps_ - 1 - turn; }
  __device__ int unit_of(int chunk) const {
    return part().block * Shape::kUnits + chunk * kChunkUnits + cell_.unit();
  }
  __device__ bool has(int chunk) const {
    return cell_.row() < launch_.rows && part().first_row + cell_.row() < args_.extent.rows &&
           unit_of(chunk) < args_.extent.hidden;
  }
  /// Of the first unit in an array [.., rows, H].
  __device__ std::int64_t element(int chunk, int index) const {
    const Extent& extent = args_.extent;
    return (static_cast<std::int64_t>(index) * extent.rows + part().first_row + cell_.row()) *
               extent.hidden +
           unit_of(chunk);
  }

  /// The last state and the gradient of its c.
  __device__ State begin(int chunk) const {
    State state{};
    if (!has(chunk)) return state;
    const float* c = args_.c_states[part().direction] + element(chunk, reversed_ ? 0 : steps_);
    const float* dc = args_.dcn ? args_.dcn + element(chunk, part().direction) : nullptr;
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      state.c[u] = c[u];
      if (dc) state.dc[u] = dc[u];
    }
    if constexpr (kScaled) {
      tell_reach(shared_ + Memory::kReaches, cell_.row(),
                 reach_of(state, factor_of_reach(state.c)));
    }
    return state;
  }

  /// Of both units, from their dc and the larger of their factors.
  __device__ static float factor_of_reach(const float (&c)[2]) {
    return fmaxf(fabsf(c[0]), fabsf(c[1])) + 1;
  }
  __device__ static float reach_of(const State& state, float factor) {
    return fmaxf(fabsf(state.dc[0]), fabsf(state.dc[1])) * factor;
  }

  /// Of two units of shared memory, where lines have 64 or 128 bytes.
  __device__ static void load_pair(float (&to)[2], std::uint32_t from) {
    asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "r"(from));
  }
  template <typename Number>
  __device__ static void load_dy(float (&to)[2], std::uint32_t from) {
    if constexpr (sizeof(Number) == 4) {
      load_pair(to, in_lines_of_128(from));
    } else {
      std::uint32_t dy;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(dy) : "r"(in_lines_of_64(from)));
      Number d[2];
      memcpy(d, &dy, sizeof(d));
#pragma unroll
      for (int u = 0; u < 2; ++u) to[u] = load(d + u);
    }
  }
  __device__ static uint4 load_piece(std::uint32_t from) {
    uint4 bits;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "r"(from));
    return bits;
  }

  __device__ Factors receive(int chunk, int turn, State& state) const {
    Factors factors;
    const Slot slot = Slot::of<Shape, Memory::kInputSlots>(turn, chunk);
    wait_for_phase(barriers().inputs_full(slot.index), slot.parity);
    const std::uint32_t inputs = shared_ + Memory::kInputs + slot.index * Inputs::kBytes;
    const std::uint32_t saved = in_lines_of_128(inputs + cell_.saved);
    T values[8];
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(values) / 16); ++i) {
      // The second piece of a pair of units is the first one's neighbour, wherever that lies.
      const uint4 bits = load_piece(saved ^ i * 16);
      memcpy(reinterpret_cast<std::byte*>(values) + i * 16, &bits, sizeof(bits));
    }
    float before[2];
    load_pair(before, in_lines_of_128(inputs + cell_.template c<Inputs>()));
    factors.dh[0] = factors.dh[1] = 0;
    if (args_.dy) load_dy<T>(factors.dh, inputs + cell_.template dy<Inputs>());
    factors.active = time_of(turn) < length_;
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      float gates[4];
#pragma unroll
      for (int g = 0; g < 4; ++g) gates[g] = load(values + 4 * u + g);
      float after;
      if constexpr (kScaled) {
        // Saved as they are, the gates make it once more.
        after = Cell::next_c(gates, before[u]);
      } else {
        after = state.c[u];
      }
      factors.dc_of_dh[u] = Cell::whole_dc(gates, after, 1.0f, 0.0f);
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        const bool takes_dh = Cell::takes_dh(g);
        factors.gates[g][u] = Cell::d_gate(g, gates, before[u], after, 0.0f, takes_dh ? 1.0f : 0.0f,
                                           takes_dh ? 0.0f : 1.0f);
      }
      factors.dc_before[u] = Cell::dc_before(gates, 1.0f);
      state.c[u] = before[u];
    }
    if constexpr (kScaled) factors.reach = factor_of_reach(before);
    const int first = reversed_ ? 0 : steps_ - length_;
    if (args_.dhn && turn == first && has(chunk)) {
      const T* dhn = static_cast<const T*>(args_.dhn) + element(chunk, part().direction);
#pragma unroll
      for (int u = 0; u < 2; ++u) factors.dh[u] += load(dhn + u);
    }
    return factors;
  }

  /// What came of dh from all blocks for a turn's product, in one order.
  __device__ float2 receive_sums(int turn, int chunk) const {
    const Slot slot = part_slot<Shape>(turn, chunk);
    wait_for_phase(barriers().parts_full(slot.index), slot.parity);
    if (thread() == 0) expect_parts(slot.index);
    const std::uint32_t from =
        shared_ + Memory::kParts + slot.index * Shape::kBlocks * Memory::kPartBytes + cell_.sums;
    float2 parts[Shape::kBlocks];
#pragma unroll
    for (int i = 0; i < Shape::kBlocks; ++i) {
      asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];"
                   : "=f"(parts[i].x), "=f"(parts[i].y)
                   : "r"(from + i * Memory::kPartBytes));
    }
    float2 sums = parts[0];
#pragma unroll
    for (int i = 1; i < Shape::kBlocks; ++i) {
      sums.x += parts[i].x;
      sums.y += parts[i].y;
    }
    if constexpr (kScaled) {
      // One after the other: both together may be no number.
      sums.x = sums.x * unscale_ * unscale_weights_;
      sums.y = sums.y * unscale_ * unscale_weights_;
    }
    return sums;
  }
  __device__ void tell_senders(int turn, int chunk) const {
    const int slot = part_slot<Shape>(turn, chunk).index;
    const auto lane = static_cast<std::uint32_t>(thread() % 32);
    arrive_after_loads(lane < Shape::kBlocks ? address_in(lane, barriers().parts_empty(slot)) : 0);
  }

  /// The gradients of the gates and of the state before.
  __device__ Gates step(int chunk, int turn, const Factors& factors, const float2& sums,
                        State& state) const {
    // A reversed row ends before the longest one of the cluster does.
    if (args_.dh0 && reversed_ && turn == length_) store_dh0(chunk, sums);
    float dh[2]{sums.x + factors.dh[0], sums.y + factors.dh[1]};
    float dc[2];
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      dc[u] = fmaf(dh[u], factors.dc_of_dh[u], state.dc[u]);
      if (factors.active) state.dc[u] = dc[u] * factors.dc_before[u];
    }
    Gates gates;
    if constexpr (kScaled) {
#pragma unroll
      for (int u = 0; u < 2; ++u) dh[u] *= up_, dc[u] *= up_;
    }
    float largest = 0;
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      Factor d[2];
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const float whole = Cell::takes_dh(g) ? dh[u] : dc[u];
        const float gradient = factors.active ? whole * factors.gates[g][u] : 0.0f;
        if constexpr (kScaled) largest = fmaxf(largest, fabsf(gradient));
        store(d + u, gradient);
      }
      memcpy(&gates.pairs[g], d, sizeof(d));
    }
    if constexpr (kScaled) {
      gates.reach = fmaf(norm_ * largest, reciprocal_of_power(up_), reach_of(state, factors.reach));
    }
    return gates;
  }

  __device__ void store_dh0(int chunk, const float2& dh) const {
    if (!has(chunk)) return;
    T* to = static_cast<T*>(args_.dh0) + element(chunk, part().direction);
    store(to, dh.x);
    store(to + 1, dh.y);
  }
  /// Gradients of the initial state.
  __device__ void finish(int chunk, float2 sums, const State& state) const {
    if (!has(chunk)) return;
    const std::int64_t at = element(chunk, part().direction);
    if (length_ == 0) {
      const T* dhn = static_cast<const T*>(args_.dhn);
      sums = dhn ? float2{load(dhn + at), load(dhn + at + 1)} : float2{0, 0};
    }
    const bool waits = length_ == 0 || length_ == steps_ || !reversed_;
    if (args_.dh0 && waits) store_dh0(chunk, sums);
    if (args_.dc0) {
      args_.dc0[at] = state.dc[0];
      args_.dc0[at + 1] = state.dc[1];
    }
  }

  const LaunchArgs& launch_;
  const LayerBackward& args_;
  const bool reversed_;
  const int steps_;
  const std::uint32_t shared_;
  const CellAt cell_;
  const int length_;
  /// The row's scale in this turn, and what takes back that of the turn before and that of weights.
  float up_ = 1, unscale_ = 1, unscale_weights_ = 1;
  float norm_ = 0;  ///< of the weights: how far gradients of gates reach
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
