#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gradient_marks.h"
#include "runtime/context.h"
#include "runtime/tensor.h"

/// The chunks of a gradient array that were marked (kernels/gradient_marks.h), one behind the
/// other.
namespace sluice::kernels::optimizer {

using runtime::Context;
using runtime::Tensor;

/// The numbers of chunks, in rising order.
struct MarkedChunks {
  Tensor chunks;  ///< int32 [capacity]
  Tensor count;   ///< int32 [1]: how many there are, which may be more than have a place
};

/// Bytes that list_marked needs to work with, for so many marks.
std::size_t list_marked_bytes(const Context& context, std::int64_t marks);

struct ListMarkedArgs {
  Tensor marks;               ///< uint8 [n]
  MarkedChunks list;          ///< out: those that are kMarked
  void* workspace = nullptr;  ///< list_marked_bytes
};
void list_marked(const Context& context, const ListMarkedArgs& args);

struct PackedChunksArgs {
  MarkedChunks list;
  Tensor packed;     ///< [capacity * kElementsPerMark], float32 or bfloat16
  Tensor gradients;  ///< float32 [n]
};
/// Copies chunks of gradients to `packed`, rounded to its type, and zeros behind them. If the list
/// has no place for all, `packed` begins with NaN: nothing is lost unnoticed.
void pack_chunks(const Context& context, const PackedChunksArgs& args);
/// Copies them back.
void unpack_chunks(const Context& context, const PackedChunksArgs& args);

}  // namespace sluice::kernels::optimizer
