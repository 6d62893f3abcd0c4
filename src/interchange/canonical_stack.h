#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/account.h"
#include "interchange/folded_chain.h"
#include "models/stack_config.h"

namespace sluice::interchange {

/// Layers as a stack of Sluice has them: all with the same directions and of one cell.
struct CanonicalStack {
  models::StackConfig config;  ///< dropout is 0
  std::vector<CanonicalLayer> layers;
  /// For each number that a layer of the source puts out, its place in the layer's output here.
  std::vector<std::vector<std::int64_t>> places = {};
};

/// Makes the layers alike. Where some run in one direction and others in two, or backward alone,
/// the missing direction is a cell of zeros, which `account` is told. Throws
/// ErrorCode::kUnsupported, naming the layers, if they differ in their cell, or a layer's
/// directions in their width.
CanonicalStack stack_of(std::vector<CanonicalLayer> layers, Account& account);

/// Makes all layers of a stack in one direction as wide as its widest, and their projections, by
/// units of zeros, whose output is zero at every step. `account` is told. Throws
/// ErrorCode::kUnsupported for more layers than a model has, and if the stack would grow too much.
void even_out_widths(CanonicalStack& stack, Account& account);

/// Columns moved to places of a row with `width` columns; the others are zero.
template <typename T>
std::vector<T> spread_columns(const std::vector<T>& matrix, const std::vector<std::int64_t>& places,
                              std::int64_t width) {
  const std::size_t columns = places.size();
  const std::size_t rows = columns == 0 ? 0 : matrix.size() / columns;
  std::vector<T> result(rows * static_cast<std::size_t>(width));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      result[row * static_cast<std::size_t>(width) + static_cast<std::size_t>(places[column])] =
          matrix[row * columns + column];
    }
  }
  return result;
}

}  // namespace sluice::interchange
