#include <algorithm>

#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/embedding/cuda/dropped.h"
#include "kernels/embedding/cuda/embedding.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/neighbours.h"
#include "runtime/cuda/numbers.h"

namespace sluice::kernels::embedding::cuda {
namespace {

/// Blocks of 32 units of a row x 8 tokens.
constexpr int kTileUnits = 32, kTileTokens = 8;

/// Unit is a piece of a row that is moved at once; rows hold `units` of them. A token outside the
/// table picks a row of set bits: NaN. Tables are table_stride units apart, what is picked of them
/// out_stride.
template <typename Unit>
__global__ void gather_kernel(const Unit* table, const std::int32_t* tokens, Unit* out,
                              std::int64_t vocabulary, std::int64_t units, std::int64_t count,
                              std::int64_t table_stride, std::int64_t out_stride) {
  table += blockIdx.z * table_stride;
  out += blockIdx.z * out_stride;
  const std::int64_t unit = std::int64_t{blockIdx.x} * kTileUnits + threadIdx.x;
  if (unit >= units) return;
  for (std::int64_t i = std::int64_t{blockIdx.y} * kTileTokens + threadIdx.y; i < count;
       i += std::int64_t{gridDim.y} * kTileTokens) {
    const std::int64_t token = tokens != nullptr ? tokens[i] : i;
    Unit value;
    if (token >= 0 && token < vocabulary) {
      value = table[token * units + unit];
    } else {
      memset(&value, 0xff, sizeof value);
    }
    out[i * units + unit] = value;
  }
}

dim3 grid_for(std::int64_t units, std::int64_t count) {
  constexpr std::int64_t kMostDown = 4096;
  return {static_cast<unsigned>((units + kTileUnits - 1) / kTileUnits),
          static_cast<unsigned>(std::min(kMostDown, (count + kTileTokens - 1) / kTileTokens))};
}

template <typename Unit>
void gather_as(Stream& stream, const GatherArgs& args) {
  const auto units_of = [&](std::int64_t elements) {
    return elements * static_cast<std::int64_t>(base::size_of(args.table.dtype())) /
           static_cast<std::int64_t>(sizeof(Unit));
  };
  const std::int64_t units = units_of(args.features()), count = args.count();
  dim3 grid = grid_for(units, count);
  grid.z = static_cast<unsigned>(args.tables());
  runtime::cuda::launch(
      stream, "gather rows of a table", gather_kernel<Unit>, grid, dim3(kTileUnits, kTileTokens), 0,
      static_cast<const Unit*>(args.table.data()), args.tokens.data_as<const std::int32_t>(),
      static_cast<Unit*>(args.out.data()), args.vocabulary(), units, count,
      units_of(args.table_stride()), units_of(args.out_stride()));
}

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
  for (std::int64_t i = std::int64_t{blockIdx.y} * kTileTokens + threadIdx.y; i < count;
       i += std::int64_t{gridDim.y} * kTileTokens) {
    const std::int32_t token = tokens[i];
    const bool known = token >= 0 && token < vocabulary;
    Wide values;
    if (known) values = *reinterpret_cast<const Wide*>(table + token * features + j);
    Narrow narrow;
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      narrow.at[k] = runtime::cuda::narrowed<To>(known ? values.at[k] : __int_as_float(-1));
    }
    if constexpr (kDrops) dropped.drop(key, dropped.token(i), j, narrow.at);
    runtime::cuda::store_neighbours(out + i * features + j, narrow);
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
  runtime::cuda::launch(stream, "gather rows of a table", kernel,
                        grid_for(wide ? features / kWide : features, count),
                        dim3(kTileUnits, kTileTokens), 0, args.table.data_as<const float>(),
                        args.tokens.data_as<const std::int32_t>(), args.out.data_as<To>(),
                        args.table.size(0), features, count, Dropped(args.dropout, args.tokens));
}

void gather_same(Stream& stream, const GatherArgs& args) {
  const std::size_t size = base::size_of(args.table.dtype());
  const auto bits = reinterpret_cast<std::uintptr_t>(args.table.data()) |
                    reinterpret_cast<std::uintptr_t>(args.out.data()) |
                    static_cast<std::uintptr_t>(args.features()) * size |
                    static_cast<std::uintptr_t>(args.table_stride() | args.out_stride()) * size;
  if (bits % sizeof(uint4) == 0) return gather_as<uint4>(stream, args);
  if (size == sizeof(std::uint64_t)) return gather_as<std::uint64_t>(stream, args);
  if (size == sizeof(std::uint16_t)) return gather_as<std::uint16_t>(stream, args);
  gather_as<std::uint32_t>(stream, args);
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

}  // namespace sluice::kernels::embedding::cuda
