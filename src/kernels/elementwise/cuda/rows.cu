#include <algorithm>
#include <array>
#include <type_traits>

#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/elementwise/cuda/groups.h"
#include "runtime/cuda/numbers.h"

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

/// A matrix of which per_unit elements make a unit.
template <typename Unit>
Rows<Unit> rows_of(const Tensor& tensor, std::int64_t per_unit) {
  Rows<Unit> rows(tensor);
  rows.columns /= per_unit;
  rows.stride /= per_unit;
  return rows;
}

/// Blocks of 32 columns x 8 rows; rows beyond what a grid holds are walked.
constexpr int kTileColumns = 32, kTileRows = 8;

dim3 tiles_for(std::int64_t columns, std::int64_t rows) {
  constexpr std::int64_t kMostDown = 4096;
  return {static_cast<unsigned>((columns + kTileColumns - 1) / kTileColumns),
          static_cast<unsigned>(std::min(kMostDown, (rows + kTileRows - 1) / kTileRows))};
}

/// Unit is T or a group of four; columns and strides count units.
template <typename Unit>
__global__ void add_bias_kernel(const Unit* bias, Rows<Unit> x) {
  const std::int64_t column = std::int64_t{blockIdx.x} * kTileColumns + threadIdx.x;
  if (column >= x.columns) return;
  const Unit value = bias[column];
#pragma unroll 4
  for (std::int64_t row = std::int64_t{blockIdx.y} * kTileRows + threadIdx.y; row < x.count;
       row += std::int64_t{gridDim.y} * kTileRows) {
    Unit& element = x.data[row * x.stride + column];
    if constexpr (std::is_arithmetic_v<Unit>) {
      element += value;
    } else {
      Unit sum = element;
      for (int i = 0; i < 4; ++i) sum.at[i] += value.at[i];
      element = sum;
    }
  }
}

/// kColumns columns a block, kRows threads a column, each of which adds up every kRows-th row. Then
/// their sums in rising order.
template <typename X, int kColumns, int kRows>
__global__ void __launch_bounds__(kColumns* kRows)
    column_sums_kernel(Rows<const X> x, runtime::cuda::Wide<X>* sums, bool accumulate,
                       const float* factor) {
  __shared__ double parts[kRows][kColumns];
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumns + threadIdx.x;
  double sum = 0;
  if (column < x.columns) {
#pragma unroll 8
    for (std::int64_t row = threadIdx.y; row < x.count; row += kRows) {
      sum += static_cast<double>(runtime::cuda::widened(x.data[row * x.stride + column]));
    }
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= x.columns) return;
  double total = 0;
  for (int part = 0; part < kRows; ++part) total += parts[part][threadIdx.x];
  if (factor != nullptr) total *= static_cast<double>(*factor);
  const auto rounded = static_cast<runtime::cuda::Wide<X>>(total);
  sums[column] = accumulate ? sums[column] + rounded : rounded;
}

template <typename X, int kColumns, int kRows>
void launch_sums(Stream& stream, const Rows<const X>& x, runtime::cuda::Wide<X>* sums,
                 bool accumulate, const float* factor) {
  const auto blocks = static_cast<unsigned>((x.columns + kColumns - 1) / kColumns);
  runtime::cuda::launch(stream, "add up columns", column_sums_kernel<X, kColumns, kRows>, blocks,
                        dim3(kColumns, kRows), 0, x, sums, accumulate, factor);
}

/// [n, rows, words] with strides in words.
template <typename Word>
struct Places {
  Word* data;
  std::int64_t outer, row;

  Places(const Tensor& tensor, std::int64_t per_word)
      : data(static_cast<Word*>(tensor.data())),
        outer(tensor.stride(0) / per_word),
        row(tensor.stride(1) / per_word) {}
};

/// A thread moves one word of a row; of rows, every gridDim.y * kTileRows-th.
template <typename Word>
__global__ void rearrange_kernel(Places<const Word> from, Places<Word> to, std::int64_t rows,
                                 std::int64_t all, std::int64_t words) {
  const std::int64_t word = std::int64_t{blockIdx.x} * kTileColumns + threadIdx.x;
  if (word >= words) return;
  for (std::int64_t i = std::int64_t{blockIdx.y} * kTileRows + threadIdx.y; i < all;
       i += std::int64_t{gridDim.y} * kTileRows) {
    const std::int64_t outer = i / rows, row = i % rows;
    to.data[outer * to.outer + row * to.row + word] =
        from.data[outer * from.outer + row * from.row + word];
  }
}

template <typename Word>
bool fit(const Tensor& tensor, std::int64_t per_word) {
  return reinterpret_cast<std::uintptr_t>(tensor.data()) % sizeof(Word) == 0 &&
         tensor.stride(0) % per_word == 0 && tensor.stride(1) % per_word == 0 &&
         tensor.size(2) % per_word == 0;
}

/// By words of that size, if rows of both begin and end with one.
template <typename Word>
bool rearrange_by(Stream& stream, const Tensor& source, const Tensor& target) {
  const auto per_word = static_cast<std::int64_t>(sizeof(Word) / base::size_of(source.dtype()));
  if (per_word == 0 || !fit<Word>(source, per_word) || !fit<Word>(target, per_word)) return false;
  const std::int64_t rows = source.size(1), all = source.size(0) * rows;
  const std::int64_t words = source.size(2) / per_word;
  runtime::cuda::launch(stream, "rearrange a tensor", rearrange_kernel<Word>, tiles_for(words, all),
                        dim3(kTileColumns, kTileRows), 0, Places<const Word>(source, per_word),
                        Places<Word>(target, per_word), rows, all, words);
  return true;
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
  std::int64_t column = 0;
  for (std::size_t begin = 0; begin < parts.size(); begin += kMostParts) {
    Parts<T> p;
    p.whole = rows_of<T>(whole, per_unit);
    p.first[0] = column;
    for (std::size_t i = begin; i < std::min(parts.size(), begin + kMostParts); ++i) {
      const auto at = static_cast<std::size_t>(p.count++);
      p.part[at] = rows_of<T>(parts[i], per_unit);
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
  const auto launch = [&](auto tag, std::int64_t per_unit) {
    using Unit = typename decltype(tag)::type;
    const Rows<Unit> rows = rows_of<Unit>(x, per_unit);
    runtime::cuda::launch(stream, "add a bias", add_bias_kernel<Unit>,
                          tiles_for(rows.columns, rows.count), dim3(kTileColumns, kTileRows), 0,
                          static_cast<const Unit*>(bias.data()), rows);
  };
  base::dispatch_master(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool in_groups = is_aligned(bias.data_as<const T>()) &&
                           is_aligned(x.data_as<const T>()) && x.size(1) % 4 == 0 &&
                           x.stride(0) % 4 == 0;
    if (in_groups) return launch(base::TypeTag<Group<T>>{}, 4);
    launch(tag, 1);
  });
}

void column_sums(Stream& stream, const Tensor& x, const Tensor& sums, bool accumulate,
                 const Tensor& factor) {
  // Few columns must still make many blocks, and very few fetch far apart rows at once.
  constexpr std::int64_t kMany = 8192, kFew = 256;
  base::dispatch_float(x.dtype(), [&](auto tag) {
    using X = typename decltype(tag)::type;
    const Rows<const X> rows(x);
    auto* out = sums.data_as<runtime::cuda::Wide<X>>();
    const auto* times = factor.data_as<const float>();
    if (rows.columns >= kMany) return launch_sums<X, 32, 32>(stream, rows, out, accumulate, times);
    if (rows.columns <= kFew) return launch_sums<X, 4, 256>(stream, rows, out, accumulate, times);
    launch_sums<X, 16, 64>(stream, rows, out, accumulate, times);
  });
}

void concatenate(Stream& stream, std::vector<Tensor> parts, const Tensor& whole) {
  move_parts<true>(stream, parts, whole);
}

void split(Stream& stream, const Tensor& whole, std::vector<Tensor> parts) {
  move_parts<false>(stream, parts, whole);
}

void rearrange(Stream& stream, const Tensor& source, const Tensor& target) {
  if (rearrange_by<uint4>(stream, source, target)) return;
  if (rearrange_by<std::uint64_t>(stream, source, target)) return;
  if (rearrange_by<std::uint32_t>(stream, source, target)) return;
  rearrange_by<std::uint16_t>(stream, source, target);
}

}  // namespace sluice::kernels::elementwise::cuda
