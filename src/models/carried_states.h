#pragma once

#include <cstdint>

#include "runtime/buffer.h"
#include "runtime/context.h"

namespace sluice::models {

using runtime::Context;
using runtime::DType;
using runtime::Shape;
using runtime::Tensor;

/// States of a recurrent stack, one of h and one of c (absent if the cell has none).
struct RecurrentStates {
  Tensor h;  ///< [layers, rows, output of a layer], storage
  Tensor c;  ///< [layers, rows, hidden], cell-state dtype
};

/// The states in which rows of a batch ended, kept on the device for rows of the next to go on
/// from. It never moves, so that captured work may use it. Zero until stored.
class CarriedStates {
 public:
  /// Of `rows` rows; the shapes are those of one row, [layers, 1, width].
  CarriedStates(const Context& context, std::int64_t rows, DType storage, const Shape& h_of_row,
                const Shape& c_of_row);

  std::int64_t rows() const { return rows_; }
  /// What is kept, [layers, 1 + rows, width]: the first row of a layer is zero, and row r of the
  /// batch is kept in row 1 + r. To be saved and restored whole.
  const RecurrentStates& kept() const { return kept_; }

  /// states = those kept of the rows that `from` names, int32 [rows of states]: 1 + r for row r of
  /// the batch before, 0 for zero.
  void load(const Context& context, const Tensor& from, const RecurrentStates& states) const;
  /// Keeps these. Rows beyond rows() are padding and not kept.
  void store(const Context& context, const RecurrentStates& states) const;

 private:
  std::int64_t rows_;
  runtime::Buffer h_memory_, c_memory_;
  RecurrentStates kept_;
};

}  // namespace sluice::models
