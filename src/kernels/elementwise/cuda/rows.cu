#include <algorithm>
#include <array>
#include <limits>

#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/elementwise/cuda/groups.h"

namespace sluice::kernels::elementwise::cuda {
namespace {

/// A matrix by plain numbers; elements of type T or what is as large.
template <typename T>
struct Rows {
  T* data = nullptr;
  std::int64_t count = 0, columns = 0, stride = 0;

  Rows() = default;
  explicit Rows(const Tensor& tensor)
      : data(static_cast<T*>(tensor.data())),
        count(tensor.size(0)),
        columns(tensor.size(1)),
        stride(tensor.stride(0)) {}
};

/// Blocks of 32 columns x 8 rows; rows beyond what a grid holds are walked.
constexpr int kTileColumns = 32, kTileRows = 8;

dim3 tiles_for(std::int64_t columns, std::int64_t rows) {
  constexpr std::int64_t kMostDown = 4096;
  return {static_cast<unsigned>((columns + kTileColumns - 1) / kTileColumns),
          static_cast<unsigned>(std::min(kMostDown, (rows + kTileRows - 1) / kTileRows))};
}

template <typename T>
__global__ void add_bias_kernel(const T* bias, Rows<T> x) {
  const std::int64_t column = std::int64_t{blockIdx.x} * kTileColumns + threadIdx.x;
  if (column >= x.columns) return;
  const T value = bias[column];
  for (std::int64_t row = std::int64_t{blockIdx.y} * kTileRows + threadIdx.y; row < x.count;
       row += std::int64_t{gridDim.y} * kTileRows) {
    x.data[row * x.stride + column] += value;
  }
}

/// 16 columns a block, so that few columns still make many blocks; 64 threads a column, each of
/// which adds up every 64th row. Then the 64 sums in rising order.
constexpr int kSumColumns = 16, kSumRows = 64;

template <typename T>
__global__ void __launch_bounds__(kSumColumns* kSumRows)
    column_sums_kernel(Rows<const T> x, T* sums, bool accumulate) {
  __shared__ double parts[kSumRows][kSumColumns];
  const std::int64_t column = std::int64_t{blockIdx.x} * kSumColumns + threadIdx.x;
  double sum = 0;
  if (column < x.columns) {
#pragma unroll 8
    for (std::int64_t row = threadIdx.y; row < x.count; row += kSumRows) {
      sum += static_cast<double>(x.data[row * x.stride + column]);
    }
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= x.columns) return;
  double total = 0;
  for (int part = 0; part < kSumRows; ++part) total += parts[part][threadIdx.x];
  const T rounded = static_cast<T>(total);
  sums[column] = accumulate ? sums[column] + rounded : rounded;
}

constexpr int kMostParts = 8;

/// Some parts of a matrix, side by side from a column of it on.
template <typename T>
struct Parts {
  Rows<T> whole;
  int count = 0;
  std::array<Rows<T>, kMostParts> part;
  std::array<std::int64_t, kMostParts + 1> first{};  ///< columns of the whole where they begin
};

template <typename T, bool kToWhole>
__global__ void move_parts_kernel(Parts<T> p) {
  const std::int64_t column = p.first[0] + std::int64_t{blockIdx.x} * kTileColumns + threadIdx.x;
  if (column >= p.first[p.count]) return;
  int which = 0;
  while (column >= p.first[which + 1]) ++which;
  const Rows<T>& part = p.part[which];
  const std::int64_t own_column = column - p.first[which];
  for (std::int64_t row = std::int64_t{blockIdx.y} * kTileRows + threadIdx.y; row < p.whole.count;
       row += std::int64_t{gridDim.y} * kTileRows) {
    T& in_whole = p.whole.data[row * p.whole.stride + column];
    T& in_part = part.data[row * part.stride + own_column];
    if constexpr (kToWhole) {
      in_whole = in_part;
    } else {
      in_part = in_whole;
    }
  }
}

/// Moves elements as numbers of type T, of which `per_unit` elements make one.
template <typename T, bool kToWhole>
void move_as(Stream& stream, const std::vector<Tensor>& parts, const Tensor& whole,
             std::int64_t per_unit) {
  const auto rows_of = [&](const Tensor& tensor) {
    Rows<T> rows(tensor);
    rows.columns /= per_unit;
    rows.stride /= per_unit;
    return rows;
  };
  std::int64_t column = 0;
  for (std::size_t begin = 0; begin < parts.size(); begin += kMostParts) {
    Parts<T> p;
    p.whole = rows_of(whole);
    p.first[0] = column;
    for (std::size_t i = begin; i < std::min(parts.size(), begin + kMostParts); ++i) {
      const auto at = static_cast<std::size_t>(p.count++);
      p.part[at] = rows_of(parts[i]);
      column += p.part[at].columns;
      p.first[at + 1] = column;
    }
    runtime::cuda::launch(stream, "move parts of a matrix", move_parts_kernel<T, kToWhole>,
                          tiles_for(column - p.first[0], p.whole.count),
                          dim3(kTileColumns, kTileRows), 0, p);
  }
}

/// Whether every row of every tensor lies at a multiple of 16 bytes and is one long.
bool in_whole_units(const std::vector<Tensor>& parts, const Tensor& whole) {
  const auto size = static_cast<std::int64_t>(base::size_of(whole.dtype()));
  const auto fits = [&](const Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.data()) % 16 == 0 &&
           tensor.size(1) * size % 16 == 0 && tensor.stride(0) * size % 16 == 0;
  };
  return fits(whole) && std::all_of(parts.begin(), parts.end(), fits);
}

template <bool kToWhole>
void move_parts(Stream& stream, const std::vector<Tensor>& parts, const Tensor& whole) {
  const auto size = static_cast<std::int64_t>(base::size_of(whole.dtype()));
  if (in_whole_units(parts, whole)) {
    move_as<uint4, kToWhole>(stream, parts, whole, 16 / size);
  } else if (size == 8) {
    move_as<std::uint64_t, kToWhole>(stream, parts, whole, 1);
  } else if (size == 2) {
    move_as<std::uint16_t, kToWhole>(stream, parts, whole, 1);
  } else {
    move_as<std::uint32_t, kToWhole>(stream, parts, whole, 1);
  }
}

}  // namespace

void add_bias(Stream& stream, const Tensor& bias, const Tensor& x) {
  base::dispatch_master(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    runtime::cuda::launch(stream, "add a bias", add_bias_kernel<T>, tiles_for(x.size(1), x.size(0)),
                          dim3(kTileColumns, kTileRows), 0, bias.data_as<const T>(), Rows<T>(x));
  });
}

void column_sums(Stream& stream, const Tensor& x, const Tensor& sums, bool accumulate) {
  base::dispatch_master(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto blocks = static_cast<unsigned>((x.size(1) + kSumColumns - 1) / kSumColumns);
    runtime::cuda::launch(stream, "add up columns", column_sums_kernel<T>, blocks,
                          dim3(kSumColumns, kSumRows), 0, Rows<const T>(x), sums.data_as<T>(),
                          accumulate);
  });
}

void concatenate(Stream& stream, std::vector<Tensor> parts, const Tensor& whole) {
  move_parts<true>(stream, parts, whole);
}

void split(Stream& stream, const Tensor& whole, std::vector<Tensor> parts) {
  move_parts<false>(stream, parts, whole);
}

}  // namespace sluice::kernels::elementwise::cuda
