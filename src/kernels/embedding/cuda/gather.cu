#include <algorithm>
#include <array>
#include <span>

#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/embedding/cuda/dropped.h"
#include "kernels/embedding/cuda/embedding.h"
#include "runtime/cuda/launch_early.h"
#include "runtime/cuda/neighbours.h"
#include "runtime/cuda/numbers.h"

namespace sluice::kernels::embedding::cuda {
namespace {

/// Blocks of 32 units of a row x 8 tokens.
constexpr int kTileUnits = 32, kTileTokens = 8;

/// Units that a thread moves of a row, on their way at once.
constexpr int kBatch = 4;
/// Stacks of tables that one launch takes.
constexpr int kMostStacks = 4;

/// Tables of which the same rows are picked or placed, `units` a row. Tables are table_stride units
/// apart, what is picked of them out_stride.
template <typename Unit>
struct Stack {
  Unit* tables;
  const std::int32_t* tokens;  ///< null: the first rows
  Unit* out;
  std::int64_t count, vocabulary, units, table_stride, out_stride;
};
template <typename Unit>
struct Stacks {
  Stack<Unit> of[kMostStacks];
};

/// Unit is a piece of a row that is moved at once. A token outside the table picks a row of set
/// bits: NaN. kPlaces: rows go into the tables instead, and such a token's nowhere. Grid: z the
/// tables of all stacks.
template <typename Unit, bool kPlaces>
__global__ void gather_kernel(Stacks<Unit> stacks, std::int64_t count) {
  runtime::cuda::begin_behind_kernel_ahead();
  std::int64_t which = blockIdx.z;
  int s = 0;
  while (which >= stacks.of[s].count) which -= stacks.of[s++].count;
  const Stack<Unit>& stack = stacks.of[s];
  Unit* table = stack.tables + which * stack.table_stride;
  Unit* out = stack.out + which * stack.out_stride;
  const std::int64_t first = std::int64_t{blockIdx.x} * kTileUnits * kBatch + threadIdx.x;
  for (std::int64_t i = std::int64_t{blockIdx.y} * kTileTokens + threadIdx.y; i < count;
       i += std::int64_t{gridDim.y} * kTileTokens) {
    const std::int64_t token = stack.tokens != nullptr ? stack.tokens[i] : i;
    const bool is_known = token >= 0 && token < stack.vocabulary;
    const Unit* from = kPlaces ? out + i * stack.units : table + token * stack.units;
    Unit* to = kPlaces ? table + token * stack.units : out + i * stack.units;
    Unit values[kBatch];
    memset(values, 0xff, sizeof values);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const std::int64_t unit = first + k * kTileUnits;
      if (is_known && unit < stack.units) values[k] = from[unit];
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const std::int64_t unit = first + k * kTileUnits;
      if ((is_known || !kPlaces) && unit < stack.units) to[unit] = values[k];
    }
  }
}

dim3 grid_for(std::int64_t threads, std::int64_t count) {
  constexpr std::int64_t kMostDown = 4096;
  return {static_cast<unsigned>((threads + kTileUnits - 1) / kTileUnits),
          static_cast<unsigned>(std::min(kMostDown, (count + kTileTokens - 1) / kTileTokens))};
}

/// As many rows of all, in units that divide what each of them has. `early`: behind a kernel, which
/// may end meanwhile.
template <typename Unit, bool kPlaces = false>
void gather_as(Stream& stream, std::span<const GatherArgs> all, bool early) {
  Stacks<Unit> stacks{};
  std::int64_t most_units = 0;
  unsigned tables = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const GatherArgs& args = all[i];
    const auto units_of = [&](std::int64_t elements) {
      return elements * static_cast<std::int64_t>(base::size_of(args.table.dtype())) /
             static_cast<std::int64_t>(sizeof(Unit));
    };
    const std::int64_t units = units_of(args.features());
    stacks.of[i] = {static_cast<Unit*>(args.table.data()),
                    args.tokens.data_as<const std::int32_t>(),
                    static_cast<Unit*>(args.out.data()),
                    args.tables(),
                    args.vocabulary(),
                    units,
                    units_of(args.table_stride()),
                    units_of(args.out_stride())};
    most_units = std::max(most_units, units);
    tables += static_cast<unsigned>(args.tables());
  }
  const std::int64_t count = all[0].count();
  dim3 grid = grid_for((most_units + kBatch - 1) / kBatch, count);
  grid.z = tables;
  const dim3 block(kTileUnits, kTileTokens);
  constexpr const char* kWhat = kPlaces ? "place rows in tables" : "gather rows of tables";
  constexpr auto* kKernel = gather_kernel<Unit, kPlaces>;
  if (early) {
    runtime::cuda::launch_early(stream, kWhat, kKernel, grid, block, 0, stacks, count);
  } else {
    runtime::cuda::launch(stream, kWhat, kKernel, grid, block, 0, stacks, count);
  }
}

/// Tokens that a thread of the next kernel has on their way at once.
constexpr int kTogether = 4;

/// As gather_kernel, into a narrower type or dropped out; kWide neighbours a thread, of rows of
/// whole such. kDrops only where four are moved at once, which share a draw.
template <typename From, typename To, int kWide, bool kDrops>
__global__ void gather_narrow_kernel(const From* table, const std::int32_t* tokens, To* out,
                                     std::int64_t vocabulary, std::int64_t features,
                                     std::int64_t count, Dropped dropped) {
  static_assert(!kDrops || kWide == kDrawn);
  using Wide = runtime::cuda::Neighbours<From, kWide>;
  using Narrow = runtime::cuda::Neighbours<To, kWide>;
  const std::int64_t j = (std::int64_t{blockIdx.x} * kTileUnits + threadIdx.x) * kWide;
  if (j >= features) return;
  const runtime::DropoutKey key = kDrops ? dropped.source.key() : runtime::DropoutKey{};
  const std::int64_t step = std::int64_t{gridDim.y} * kTileTokens;
  for (std::int64_t first = std::int64_t{blockIdx.y} * kTileTokens + threadIdx.y; first < count;
       first += kTogether * step) {
    std::int32_t picked[kTogether];
    Wide values[kTogether];
    // Beyond the end the last one again: loads without branches are on their way together.
#pragma unroll
    for (int t = 0; t < kTogether; ++t) picked[t] = tokens[min(first + t * step, count - 1)];
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      const bool known = picked[t] >= 0 && picked[t] < vocabulary;
      values[t] = *reinterpret_cast<const Wide*>(table + (known ? picked[t] : 0) * features + j);
#pragma unroll
      for (int k = 0; k < kWide; ++k) {
        if (!known) values[t].at[k] = __int_as_float(-1);
      }
    }
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      const std::int64_t i = first + t * step;
      if (i >= count) break;
      Narrow narrow;
#pragma unroll
      for (int k = 0; k < kWide; ++k) {
        narrow.at[k] = runtime::cuda::narrowed<To>(values[t].at[k]);
      }
      if constexpr (kDrops) dropped.drop(key, dropped.token(i), j, narrow.at);
      runtime::cuda::store_neighbours(out + i * features + j, narrow);
    }
  }
}

/// Whether rows of so many features may be moved four elements at once.
bool moves_fours(const GatherArgs& args) {
  const auto bits = reinterpret_cast<std::uintptr_t>(args.table.data()) |
                    reinterpret_cast<std::uintptr_t>(args.out.data());
  return args.table.size(1) % 4 == 0 && bits % 16 == 0;
}

template <typename To>
void gather_narrow(Stream& stream, const GatherArgs& args) {
  constexpr int kWide = 4;
  const std::int64_t count = args.tokens.element_count(), features = args.table.size(1);
  const bool wide = moves_fours(args), drops = wide && args.dropout.rate > 0;
  auto* kernel = gather_narrow_kernel<float, To, kWide, true>;
  if constexpr (sizeof(To) < sizeof(float)) {
    if (!drops) {
      kernel = wide ? gather_narrow_kernel<float, To, kWide, false>
                    : gather_narrow_kernel<float, To, 1, false>;
    }
  }
  SLUICE_ASSERT(drops || sizeof(To) < sizeof(float));
  runtime::cuda::launch(
      stream, "gather rows of a table", kernel,
      grid_for(wide ? features / kWide : features, (count + kTogether - 1) / kTogether),
      dim3(kTileUnits, kTileTokens), 0, args.table.data_as<const float>(),
      args.tokens.data_as<const std::int32_t>(), args.out.data_as<To>(), args.table.size(0),
      features, count, Dropped(args.dropout, args.tokens));
}

bool moves_16_bytes(const GatherArgs& args) {
  const std::size_t size = base::size_of(args.table.dtype());
  const auto bits = reinterpret_cast<std::uintptr_t>(args.table.data()) |
                    reinterpret_cast<std::uintptr_t>(args.out.data()) |
                    static_cast<std::uintptr_t>(args.features()) * size |
                    static_cast<std::uintptr_t>(args.table_stride() | args.out_stride()) * size;
  return bits % sizeof(uint4) == 0;
}

template <bool kPlaces = false>
void gather_same(Stream& stream, const GatherArgs& args) {
  const std::size_t size = base::size_of(args.table.dtype());
  const std::span<const GatherArgs> one(&args, 1);
  if (moves_16_bytes(args)) return gather_as<uint4, kPlaces>(stream, one, false);
  if (size == sizeof(std::uint64_t)) return gather_as<std::uint64_t, kPlaces>(stream, one, false);
  if (size == sizeof(std::uint16_t)) return gather_as<std::uint16_t, kPlaces>(stream, one, false);
  gather_as<std::uint32_t, kPlaces>(stream, one, false);
}

/// Moves rows of 16 bytes together, in launches of up to kMostStacks, and other rows one by one.
template <bool kPlaces, typename One>
void move_each(Stream& stream, std::span<const GatherArgs> all, const One& one) {
  std::array<GatherArgs, kMostStacks> together;
  std::size_t count = 0;
  const auto flush = [&] {
    if (count > 0) gather_as<uint4, kPlaces>(stream, {together.data(), count}, true);
    count = 0;
  };
  for (const GatherArgs& args : all) {
    if (args.table.dtype() != args.out.dtype() || !moves_16_bytes(args)) {
      one(args);
      continue;
    }
    if (count == together.size()) flush();
    together[count++] = args;
  }
  flush();
}

}  // namespace

void gather(Stream& stream, const GatherArgs& args) {
  const bool drops = args.dropout.rate > 0;
  const bool drops_on_the_way =
      drops && args.table.dtype() == base::DType::kFloat32 && moves_fours(args);
  if (args.out.dtype() == base::DType::kBFloat16 && args.table.dtype() != args.out.dtype()) {
    gather_narrow<base::BFloat16>(stream, args);
  } else if (args.out.dtype() == base::DType::kFloat16 && args.table.dtype() != args.out.dtype()) {
    gather_narrow<base::Float16>(stream, args);
  } else if (drops_on_the_way) {
    gather_narrow<float>(stream, args);
  } else {
    gather_same(stream, args);
  }
  if (!drops || drops_on_the_way) return;
  elementwise::cuda::dropout(stream,
                             dropout_args(args.dropout, args.tokens, args.out, args.table.size(1)));
}

void gather_each(Stream& stream, std::span<const GatherArgs> all) {
  move_each<false>(stream, all, [&](const GatherArgs& args) { gather(stream, args); });
}

void scatter_each(Stream& stream, std::span<const GatherArgs> all) {
  move_each<true>(stream, all, [&](const GatherArgs& args) { gather_same<true>(stream, args); });
}

}  // namespace sluice::kernels::embedding::cuda
