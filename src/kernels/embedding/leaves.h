#pragma once

#include <span>

#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"

namespace sluice::kernels::embedding {

using runtime::Stream;

/// Arguments of gather and scatter. Several tables are one tensor with three axes.
struct GatherArgs {
  Tensor table, tokens, out;
  Dropout dropout;

  std::int64_t tables() const { return table.rank() == 3 ? table.size(0) : 1; }
  /// Elements from one to the next.
  std::int64_t table_stride() const { return table.rank() == 3 ? table.stride(0) : 0; }
  std::int64_t out_stride() const { return table.rank() == 3 ? out.stride(0) : 0; }
  std::int64_t vocabulary() const { return table.size(table.rank() - 2); }
  std::int64_t features() const { return table.size(table.rank() - 1); }
  std::int64_t count() const { return tokens ? tokens.element_count() : out.size(1); }
};

/// Those of a pass that drops rows of `tokens` out in place, for leaves that can't on the way.
elementwise::DropoutArgs dropout_args(const Dropout& dropout, const Tensor& tokens,
                                      const Tensor& values, std::int64_t features);

/// The operations of embedding.h on one kind of device: arguments are checked already, and each is
/// queued on the stream.
struct Leaves {
  void (*gather)(Stream& stream, const GatherArgs& args);
  /// As many rows of all, without dropout.
  void (*gather_each)(Stream& stream, std::span<const GatherArgs> all);
  /// Writes the rows of `out` into the table, the same number of rows for each of `all`.
  void (*scatter_each)(Stream& stream, std::span<const GatherArgs> all);
  void (*gather_backward)(Stream& stream, const GatherBackwardArgs& args);
};

}  // namespace sluice::kernels::embedding
