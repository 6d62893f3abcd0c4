#include <algorithm>
#include <bit>

#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/embedding/cuda/embedding.h"
#include "kernels/embedding/cuda/few_rows.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/numbers.h"
#include "runtime/cuda/reduce.h"

/// A block owns some rows of the table and some columns of them: what it adds needs no atomics. It
/// reads the tokens a window at a time, keeps the places of those in its rows, sorts them by row,
/// and adds each row's in rising order. Rows are dealt out by their lowest bits, for frequent words
/// often stand together.
namespace sluice::kernels::embedding::cuda {
namespace {

using runtime::cuda::kAllLanes;
using runtime::cuda::kWarp;

constexpr int kThreads = 512, kWarps = kThreads / kWarp;
/// Tokens of a window that a thread looks at.
constexpr int kPerThread = 16;
constexpr int kPlaceBits = 13, kWindow = 1 << kPlaceBits;
static_assert(kWindow == kThreads * kPerThread);
/// About two blocks a multiprocessor.
constexpr std::int64_t kBlocks = 256;

/// Rows with more tokens than this in a window are left to the whole block, which fetches a tile of
/// tokens at once; a warp would wait for memory again and again.
constexpr int kHeavy = 64;
constexpr int kTile = 128;

/// What a lane moves at once.
template <typename T>
struct alignas(16) Group {
  static constexpr int kSize = 16 / sizeof(T);
  T at[kSize];
};

template <typename T>
constexpr int kColumns = kWarp* Group<T>::kSize;

/// Stored is the type of the gradients that come in.
template <typename T, typename Stored>
struct Problem {
  const std::int32_t* tokens;
  std::int64_t count;
  std::int32_t padding;
  const Stored* d_out;
  T* d_table;
  std::int64_t vocabulary, features;
  int bin_bits;  ///< a block's rows are those with one value of that many lowest bits
  Marks marks;   ///< of the table

  __device__ bool takes(std::int32_t token, unsigned bin) const {
    return token >= 0 && token < vocabulary && token != padding &&
           (static_cast<unsigned>(token) & ((1u << bin_bits) - 1)) == bin;
  }
};

/// An entry is a row of the block's and a place in the window.
__device__ unsigned row_of(unsigned entry) { return entry >> kPlaceBits; }

/// The entries [at, end) of one row.
struct Segment {
  int at, end;
};

template <typename T>
struct Memory {
  unsigned entries[kWindow];
  T tile[kTile][kColumns<T>];
  int counts[kWarps];  ///< tokens each warp found
  int heavy_count;     ///< rows left to the block
  Segment heavy[kWindow / kHeavy];
};

/// Finds the block's tokens of the window from `begin` on, in rising order; returns how many.
template <typename T, typename Stored>
__device__ int collect(const Problem<T, Stored>& p, Memory<T>& memory, std::int64_t begin) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int first = warp * kPerThread * kWarp + lane;
  std::int32_t tokens[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const std::int64_t i = begin + first + k * kWarp;
    tokens[k] = i < p.count ? p.tokens[i] : -1;
  }
  unsigned taken = 0;  // a bit a token
  int found = 0;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const bool take = p.takes(tokens[k], blockIdx.x);
    taken |= static_cast<unsigned>(take) << k;
    found += __popc(__ballot_sync(kAllLanes, take));
  }
  if (lane == 0) memory.counts[warp] = found;
  __syncthreads();
  int place = 0, total = 0;
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) place = total;
    total += memory.counts[w];
  }
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const bool take = (taken >> k & 1u) != 0;
    const unsigned takers = __ballot_sync(kAllLanes, take);
    if (take) {
      const auto row = static_cast<unsigned>(tokens[k]) >> p.bin_bits;
      memory.entries[place + __popc(takers & ((1u << lane) - 1))] =
          row << kPlaceBits | static_cast<unsigned>(first + k * kWarp);
    }
    place += __popc(takers);
  }
  return total;
}

/// Bitonic. Entries differ, so the order is one.
__device__ void sort(unsigned* entries, int count) {
  int size = 2;
  while (size < count) size *= 2;
  for (int i = count + threadIdx.x; i < size; i += kThreads) entries[i] = ~0u;
  for (int width = 2; width <= size; width *= 2) {
    for (int distance = width / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int pair = threadIdx.x; pair < size / 2; pair += kThreads) {
        const int low = 2 * pair - pair % distance, high = low + distance;
        const unsigned a = entries[low], b = entries[high];
        if ((a > b) == ((low & width) == 0)) {
          entries[low] = b;
          entries[high] = a;
        }
      }
    }
  }
  __syncthreads();
}

/// Where the row that begins at entry `at` ends.
__device__ int end_of_row(const unsigned* entries, int at, int count) {
  const unsigned row = row_of(entries[at]);
  for (int i = at + 1;; i += kWarp) {
    const int mine = i + static_cast<int>(threadIdx.x % kWarp);
    const unsigned others = __ballot_sync(kAllLanes, mine >= count || row_of(entries[mine]) != row);
    if (others != 0) return i + __ffs(others) - 1;
  }
}

/// As many elements of another type as a group has.
template <typename T, typename Stored>
struct alignas(Group<T>::kSize * sizeof(Stored)) StoredGroup {
  Stored at[Group<T>::kSize];
};

/// A group of columns of a row; `left` are the columns from it on. kAligned: all groups are whole
/// and may be moved at once.
template <bool kAligned, typename T, typename Stored>
__device__ Group<T> load(const Stored* from, std::int64_t left) {
  Group<T> values{};
  if constexpr (kAligned) {
    const auto stored = *reinterpret_cast<const StoredGroup<T, Stored>*>(from);
    for (int j = 0; j < Group<T>::kSize; ++j) values.at[j] = runtime::cuda::widened(stored.at[j]);
  } else {
    for (int j = 0; j < Group<T>::kSize && j < left; ++j) {
      values.at[j] = runtime::cuda::widened(from[j]);
    }
  }
  return values;
}

template <bool kAligned, typename T>
__device__ void store(T* to, std::int64_t left, const Group<T>& values) {
  if constexpr (kAligned) {
    *reinterpret_cast<Group<T>*>(to) = values;
  } else {
    for (int j = 0; j < Group<T>::kSize && j < left; ++j) to[j] = values.at[j];
  }
}

/// Where the columns of a block and the tokens of a window stand.
template <typename T, typename Stored>
struct Place {
  std::int64_t column;  ///< first of this lane's group
  const Stored* d_out;  ///< of the window's first token, at `column`

  __device__ Place(const Problem<T, Stored>& p, std::int64_t begin)
      : column(std::int64_t{blockIdx.y} * kColumns<T> +
               static_cast<int>(threadIdx.x % kWarp) * Group<T>::kSize),
        d_out(p.d_out + begin * p.features + column) {}
};

template <typename T, typename Stored>
__device__ const Stored* source_of(const Problem<T, Stored>& p, const Place<T, Stored>& place,
                                   unsigned entry) {
  return place.d_out + static_cast<std::int64_t>(entry & (kWindow - 1)) * p.features;
}

/// Where in the table the row of an entry begins.
template <typename T, typename Stored>
__device__ std::int64_t start_of(const Problem<T, Stored>& p, unsigned entry) {
  return (static_cast<std::int64_t>(row_of(entry)) << p.bin_bits | blockIdx.x) * p.features;
}

template <typename T, typename Stored>
__device__ T* target_of(const Problem<T, Stored>& p, unsigned entry) {
  return p.d_table + start_of(p, entry);
}

/// Marks what the block adds to of an entry's row.
template <typename T, typename Stored>
__device__ void mark(const Problem<T, Stored>& p, unsigned entry) {
  const std::int64_t first = std::int64_t{blockIdx.y} * kColumns<T>;
  const std::int64_t start = start_of(p, entry), end = first + kColumns<T>;
  p.marks.mark(start + first, start + (end < p.features ? end : p.features));
}

template <typename T>
__device__ void add(Group<T>& sum, const Group<T>& values) {
  for (int j = 0; j < Group<T>::kSize; ++j) sum.at[j] += values.at[j];
}

/// One warp adds some rows, `count` <= kSome of them. Most rows have one token or two: what they
/// begin with is fetched for all at once.
constexpr int kSome = 4;

template <bool kAligned, typename T, typename Stored>
__device__ void add_some(const Problem<T, Stored>& p, const Place<T, Stored>& place,
                         const unsigned* entries, const Segment (&segments)[kSome], int count) {
  const std::int64_t left = p.features - place.column;
  if (left <= 0) return;
  Group<T> sums[kSome], firsts[kSome];
  const auto target = [&](int k) { return target_of(p, entries[segments[k].at]) + place.column; };
  const auto source = [&](int i) { return source_of(p, place, entries[i]); };
#pragma unroll
  for (int k = 0; k < kSome; ++k) {
    if (k < count) {
      sums[k] = load<kAligned, T>(target(k), left);
      firsts[k] = load<kAligned, T>(source(segments[k].at), left);
    }
  }
#pragma unroll
  for (int k = 0; k < kSome; ++k) {
    if (k >= count) break;
    add(sums[k], firsts[k]);
    int i = segments[k].at + 1;
    for (; i + kSome <= segments[k].end; i += kSome) {
      Group<T> values[kSome];
#pragma unroll
      for (int j = 0; j < kSome; ++j) values[j] = load<kAligned, T>(source(i + j), left);
#pragma unroll
      for (int j = 0; j < kSome; ++j) add(sums[k], values[j]);
    }
    for (; i < segments[k].end; ++i) add(sums[k], load<kAligned, T>(source(i), left));
    store<kAligned>(target(k), left, sums[k]);
  }
}

/// The whole block adds those of one row: all threads fetch a tile, one a column adds it up while
/// the others' next is on its way.
template <bool kAligned, typename T, typename Stored>
__device__ void add_heavy_row(const Problem<T, Stored>& p, const Place<T, Stored>& place,
                              Memory<T>& memory, Segment segment) {
  constexpr int kFetches = kTile / kWarps;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const std::int64_t left = p.features - place.column;
  const std::int64_t own = std::int64_t{blockIdx.y} * kColumns<T> + threadIdx.x;
  const bool adds = threadIdx.x < kColumns<T> && own < p.features;
  T* target = target_of(p, memory.entries[segment.at]) + own;
  T sum = adds ? *target : T{0};
  Group<T> values[kFetches];
  const auto fetch = [&](int from) {
    if (left <= 0) return;
#pragma unroll
    for (int k = 0; k < kFetches; ++k) {
      // Beyond the end the last one again: loads without branches are on their way together.
      const int i = from + k * kWarps + warp;
      const unsigned entry = memory.entries[i < segment.end ? i : segment.end - 1];
      values[k] = load<kAligned, T>(source_of(p, place, entry), left);
    }
  };
  fetch(segment.at);
  for (int at = segment.at; at < segment.end; at += kTile) {
#pragma unroll
    for (int k = 0; k < kFetches; ++k) {
      reinterpret_cast<Group<T>*>(memory.tile[k * kWarps + warp])[lane] = values[k];
    }
    __syncthreads();
    if (at + kTile < segment.end) fetch(at + kTile);
    const int count = segment.end - at < kTile ? segment.end - at : kTile;
    if (adds) {
#pragma unroll 16
      for (int i = 0; i < count; ++i) sum += memory.tile[i][threadIdx.x];
    }
    __syncthreads();
  }
  if (adds) *target = sum;
}

/// Entries are dealt out to warps one by one, for those of a window may be few.
template <bool kAligned, typename T, typename Stored>
__device__ void add_rows(const Problem<T, Stored>& p, Memory<T>& memory, std::int64_t begin,
                         int count) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Place<T, Stored> place(p, begin);
  const unsigned* entries = memory.entries;
  for (int base = warp; base < count; base += kThreads) {
    const int mine = base + lane * kWarps;
    const bool is_first =
        mine < count && (mine == 0 || row_of(entries[mine]) != row_of(entries[mine - 1]));
    if (is_first) mark(p, entries[mine]);
    unsigned firsts = __ballot_sync(kAllLanes, is_first);
    while (firsts != 0) {
      Segment segments[kSome];
      int some = 0;
#pragma unroll
      for (int k = 0; k < kSome; ++k) {
        if (firsts == 0) break;
        const int at = base + (__ffs(firsts) - 1) * kWarps;
        firsts &= firsts - 1;
        segments[k] = {at, end_of_row(entries, at, count)};
        if (segments[k].end - at > kHeavy) {
          if (lane == 0) memory.heavy[atomicAdd(&memory.heavy_count, 1)] = segments[k];
          break;
        }
        some = k + 1;
      }
      add_some<kAligned>(p, place, entries, segments, some);
      __syncwarp();
    }
  }
  __syncthreads();
  for (int i = 0; i < memory.heavy_count; ++i) {
    add_heavy_row<kAligned>(p, place, memory, memory.heavy[i]);
  }
}

template <typename T, typename Stored, bool kAligned>
__global__ void __launch_bounds__(kThreads, 2) gather_backward_kernel(Problem<T, Stored> p) {
  extern __shared__ __align__(16) unsigned char shared[];
  Memory<T>& memory = *reinterpret_cast<Memory<T>*>(shared);
  for (std::int64_t begin = 0; begin < p.count; begin += kWindow) {
    if (threadIdx.x == 0) memory.heavy_count = 0;
    const int count = collect(p, memory, begin);
    if (count > 0) {
      __syncthreads();
      sort(memory.entries, count);
      add_rows<kAligned>(p, memory, begin, count);
    }
    __syncthreads();
  }
}

/// So many bins that there are about kBlocks blocks and that a row of a bin fits an entry.
int bin_bits_for(std::int64_t vocabulary, std::int64_t chunks) {
  const auto log2_up = [](std::int64_t value) {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value - 1)));
  };
  const int vocabulary_bits = log2_up(vocabulary);
  const int wanted =
      std::min(vocabulary_bits, log2_up(std::max(kBlocks / chunks, std::int64_t{1})));
  return std::max(wanted, vocabulary_bits - (31 - kPlaceBits));
}

template <typename T, typename Stored>
void add_back(Stream& stream, const GatherBackwardArgs& args) {
  Problem<T, Stored> p{};
  p.tokens = args.tokens.data_as<const std::int32_t>();
  p.count = args.tokens.element_count();
  p.padding = args.padding;
  p.d_out = args.d_out.data_as<const Stored>();
  p.d_table = args.d_table.data_as<T>();
  p.vocabulary = args.d_table.size(0);
  p.features = args.d_table.size(1);
  p.marks = Marks(args.marks);
  const std::int64_t chunks = (p.features + kColumns<T> - 1) / kColumns<T>;
  p.bin_bits = bin_bits_for(p.vocabulary, chunks);
  const bool aligned =
      p.features % Group<T>::kSize == 0 &&
      reinterpret_cast<std::uintptr_t>(p.d_out) % sizeof(StoredGroup<T, Stored>) == 0 &&
      reinterpret_cast<std::uintptr_t>(p.d_table) % sizeof(Group<T>) == 0;
  runtime::cuda::launch(
      stream, "add up gradients of a table",
      aligned ? gather_backward_kernel<T, Stored, true> : gather_backward_kernel<T, Stored, false>,
      dim3(1u << p.bin_bits, static_cast<unsigned>(chunks)), kThreads, sizeof(Memory<T>), p);
}

}  // namespace

void gather_backward(Stream& stream, const GatherBackwardArgs& args) {
  if (args.tokens.element_count() == 0 || args.d_table.element_count() == 0) return;
  if (add_to_few_rows(stream, args)) return;
  if (args.dropout.rate > 0) {
    elementwise::cuda::dropout(
        stream, dropout_args(args.dropout, args.tokens, args.d_out, args.d_table.size(1)));
    GatherBackwardArgs rest = args;
    rest.dropout = {};
    return gather_backward(stream, rest);
  }
  switch (args.d_out.dtype()) {
    case base::DType::kFloat64:
      return add_back<double, double>(stream, args);
    case base::DType::kBFloat16:
      return add_back<float, base::BFloat16>(stream, args);
    case base::DType::kFloat16:
      return add_back<float, base::Float16>(stream, args);
    default:
      return add_back<float, float>(stream, args);
  }
}

}  // namespace sluice::kernels::embedding::cuda
