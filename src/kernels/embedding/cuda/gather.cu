#include <algorithm>

#include "base/dtype.h"
#include "kernels/embedding/cuda/embedding.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/neighbours.h"
#include "runtime/cuda/numbers.h"

namespace sluice::kernels::embedding::cuda {
namespace {

/// Blocks of 32 units of a row x 8 tokens.
constexpr int kTileUnits = 32, kTileTokens = 8;

/// Unit is a piece of a row that is moved at once; rows hold `units` of them. A token outside the
/// table picks a row of set bits: NaN. Of several tables each is a layer of the grid's.
template <typename Unit>
__global__ void gather_kernel(const Unit* table, const std::int32_t* tokens, Unit* out,
                              std::int64_t vocabulary, std::int64_t units, std::int64_t count) {
  const std::int64_t unit = std::int64_t{blockIdx.x} * kTileUnits + threadIdx.x;
  if (unit >= units) return;
  table += blockIdx.z * vocabulary * units;
  out += blockIdx.z * count * units;
  for (std::int64_t i = std::int64_t{blockIdx.y} * kTileTokens + threadIdx.y; i < count;
       i += std::int64_t{gridDim.y} * kTileTokens) {
    const std::int32_t token = tokens[i];
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
void gather_as(Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  const std::size_t last = table.rank() - 1;
  const auto size = static_cast<std::int64_t>(base::size_of(table.dtype()));
  const std::int64_t units = table.size(last) * size / static_cast<std::int64_t>(sizeof(Unit));
  const std::int64_t count = tokens.element_count();
  dim3 grid = grid_for(units, count);
  if (last == 2) grid.z = static_cast<unsigned>(table.size(0));
  runtime::cuda::launch(stream, "gather rows of a table", gather_kernel<Unit>, grid,
                        dim3(kTileUnits, kTileTokens), 0, static_cast<const Unit*>(table.data()),
                        tokens.data_as<const std::int32_t>(), static_cast<Unit*>(out.data()),
                        table.size(last - 1), units, count);
}

/// As gather_kernel, into a narrower type; kWide neighbours a thread, of rows of whole such.
template <typename From, typename To, int kWide>
__global__ void gather_narrow_kernel(const From* table, const std::int32_t* tokens, To* out,
                                     std::int64_t vocabulary, std::int64_t features,
                                     std::int64_t count) {
  using Wide = runtime::cuda::Neighbours<From, kWide>;
  using Narrow = runtime::cuda::Neighbours<To, kWide>;
  const std::int64_t j = (std::int64_t{blockIdx.x} * kTileUnits + threadIdx.x) * kWide;
  if (j >= features) return;
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
    runtime::cuda::store_neighbours(out + i * features + j, narrow);
  }
}

template <typename To>
void gather_narrow(Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  constexpr int kWide = 4;
  const std::int64_t count = tokens.element_count(), features = table.size(1);
  const auto bits =
      reinterpret_cast<std::uintptr_t>(table.data()) | reinterpret_cast<std::uintptr_t>(out.data());
  const bool wide = features % kWide == 0 && bits % 16 == 0;
  runtime::cuda::launch(
      stream, "gather rows of a table",
      wide ? gather_narrow_kernel<float, To, kWide> : gather_narrow_kernel<float, To, 1>,
      grid_for(wide ? features / kWide : features, count), dim3(kTileUnits, kTileTokens), 0,
      table.data_as<const float>(), tokens.data_as<const std::int32_t>(), out.data_as<To>(),
      table.size(0), features, count);
}

}  // namespace

void gather(Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  if (table.dtype() != out.dtype()) {
    if (out.dtype() == base::DType::kBFloat16) {
      return gather_narrow<base::BFloat16>(stream, table, tokens, out);
    }
    return gather_narrow<base::Float16>(stream, table, tokens, out);
  }
  const std::size_t size = base::size_of(table.dtype());
  const auto bits = reinterpret_cast<std::uintptr_t>(table.data()) |
                    reinterpret_cast<std::uintptr_t>(out.data()) |
                    static_cast<std::uintptr_t>(table.size(table.rank() - 1)) * size;
  if (bits % sizeof(uint4) == 0) return gather_as<uint4>(stream, table, tokens, out);
  if (size == sizeof(std::uint64_t)) return gather_as<std::uint64_t>(stream, table, tokens, out);
  if (size == sizeof(std::uint16_t)) return gather_as<std::uint16_t>(stream, table, tokens, out);
  gather_as<std::uint32_t>(stream, table, tokens, out);
}

}  // namespace sluice::kernels::embedding::cuda
