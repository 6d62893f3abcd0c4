#include <algorithm>
#include <limits>

#include "base/dtype.h"
#include "kernels/optimizer/cpu/optimizer.h"

namespace sluice::kernels::optimizer::cpu {
namespace {

/// Calls visit(packed, gradients, count) for the elements of each chunk that has a place.
template <typename Visit>
void each_chunk(const PackedChunksArgs& args, const Visit& visit) {
  const auto* chunks = args.list.chunks.data_as<const std::int32_t>();
  const std::int64_t listed = std::min<std::int64_t>(*args.list.count.data_as<const std::int32_t>(),
                                                     args.list.chunks.size(0));
  const std::int64_t all = args.gradients.size(0);
#pragma omp parallel for schedule(static) if (listed * kElementsPerMark > kNormBlock)
  for (std::int64_t i = 0; i < listed; ++i) {
    const std::int64_t begin = chunks[i] * kElementsPerMark;
    visit(i * kElementsPerMark, begin, std::min(kElementsPerMark, all - begin));
  }
}

template <typename T>
void pack(const PackedChunksArgs& args) {
  auto* packed = args.packed.data_as<T>();
  const auto* gradients = args.gradients.data_as<const float>();
  each_chunk(args, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) packed[to + i] = static_cast<T>(gradients[from + i]);
    std::fill(packed + to + count, packed + to + kElementsPerMark, T(0.0f));
  });
  const std::int64_t capacity = args.list.chunks.size(0);
  const std::int64_t listed = *args.list.count.data_as<const std::int32_t>();
  const std::int64_t end = std::min(listed, capacity) * kElementsPerMark;
  std::fill(packed + end, packed + capacity * kElementsPerMark, T(0.0f));
  if (listed > capacity && capacity > 0) packed[0] = T(std::numeric_limits<float>::quiet_NaN());
}

template <typename T>
void unpack(const PackedChunksArgs& args) {
  const auto* packed = args.packed.data_as<const T>();
  auto* gradients = args.gradients.data_as<float>();
  each_chunk(args, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      gradients[to + i] = static_cast<float>(packed[from + i]);
    }
  });
}

}  // namespace

std::size_t list_marked_bytes(std::int64_t) { return 0; }

void list_marked(Stream& stream, const ListMarkedArgs& args) {
  stream.launch([args] {
    const auto* marks = args.marks.data_as<const std::uint8_t>();
    auto* chunks = args.list.chunks.data_as<std::int32_t>();
    const std::int64_t capacity = args.list.chunks.size(0);
    std::int32_t count = 0;
    for (std::int64_t i = 0; i < args.marks.size(0); ++i) {
      if (marks[i] != kMarked) continue;
      if (count < capacity) chunks[count] = static_cast<std::int32_t>(i);
      ++count;
    }
    *args.list.count.data_as<std::int32_t>() = count;
  });
}

void pack_chunks(Stream& stream, const PackedChunksArgs& args) {
  const bool rounds = args.packed.dtype() == base::DType::kBFloat16;
  stream.launch([args, rounds] { rounds ? pack<base::BFloat16>(args) : pack<float>(args); });
}

void unpack_chunks(Stream& stream, const PackedChunksArgs& args) {
  const bool rounds = args.packed.dtype() == base::DType::kBFloat16;
  stream.launch([args, rounds] { rounds ? unpack<base::BFloat16>(args) : unpack<float>(args); });
}

}  // namespace sluice::kernels::optimizer::cpu
