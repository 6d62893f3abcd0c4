#pragma once

#include <span>

#include "kernels/gradient_marks.h"
#include "runtime/context.h"
#include "runtime/rng.h"
#include "runtime/tensor.h"

/// Rows of a table picked by token, and their gradient.
///
/// Tables are [V, E], float32 or float64, contiguous; the rows taken from a float32 table, and the
/// gradients that come back, may also be stored in 16 bits. Tokens are int32 of any shape with n
/// elements and must lie in [0, V): the data layer sees to that. A cpu leaf throws
/// ErrorCode::kInvalidArgument for one that doesn't. A device without a host can't: there its row
/// comes out as set bits, which is NaN, and its gradient is dropped.
namespace sluice::kernels::embedding {

using runtime::Context;
using runtime::Tensor;

/// What drops out rows of tokens [time, rows], as kernels/elementwise does.
struct Dropout {
  double rate = 0;  ///< 0: nothing
  runtime::DropoutSource source = {};
  Tensor row_ids = {};  ///< int32 [rows]: global row of each; absent: the row index
};

/// out [..., E] = table[tokens[...]]; any shape with n * E elements, contiguous. Also moves the
/// rows of a decoding state, so an int32 or 16-bit table is taken as well, into its own dtype.
/// With dropout, rows are dropped out as they are stored.
///
/// Of several tables [L, V, E] the same rows, out [L, n, E]: tables may lie apart, and so may what
/// is picked of each. There without dropout, in the table's dtype, and tokens may be absent: the
/// first n rows in order.
void gather(const Context& context, const Tensor& table, const Tensor& tokens, const Tensor& out,
            const Dropout& dropout = {});

/// A table, or several, and what is picked of it.
struct Picked {
  Tensor table, tokens, out;
};
/// gather() of each; all of them pick as many rows. On a GPU one launch moves several of those
/// whose rows can be copied by 16 bytes.
void gather_each(const Context& context, std::span<const Picked> all);

/// Rows [L, n, E] for the rows of several tables [L, V, E] that int32 tokens [n] name.
struct Placed {
  Tensor rows, tokens, table;
};
/// The inverse of gather_each, of tables with three axes in the rows' dtype: table[l, tokens[i]] =
/// rows[l, i]. A token may occur twice only if its rows are equal. A device without a host skips a
/// token outside the table.
void scatter_each(const Context& context, std::span<const Placed> all);

struct GatherBackwardArgs {
  Tensor tokens;   ///< int32, n elements
  Tensor d_out;    ///< [..., E], n * E elements
  Tensor d_table;  ///< [V, E], added to
  /// Tokens equal to this are skipped, so that their row of the table never learns; -1: none.
  std::int32_t padding = -1;
  GradientMarks marks = {};  ///< of d_table: in/out, what is added to is marked
  /// Of d_out before it is added; it may be overwritten by what that leaves.
  Dropout dropout = {};
};

/// d_table[tokens[i]] += d_out[i], in rising i for each element, or on a GPU, where a table has few
/// rows, in an order that depends on the shapes alone: the same bits for any number of threads.
void gather_backward(const Context& context, const GatherBackwardArgs& args);

}  // namespace sluice::kernels::embedding
