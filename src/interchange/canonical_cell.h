#pragma once

#include <cstdint>
#include <vector>

#include "interchange/source_model.h"
#include "kernels/recurrent/recurrent.h"

namespace sluice::interchange {

/// One direction of a recurrent layer as Sluice holds it (docs/equations.md): gates in the order
/// i f g o or r z n. G is the number of gates, H hidden, I input, P output.
struct CanonicalCell {
  kernels::recurrent::CellType type = kernels::recurrent::CellType::kLstm;
  bool hard_sigmoid = false;
  std::int64_t input = 0, hidden = 0, output = 0;
  std::vector<float> weight_ih;         ///< [G*H, I]
  std::vector<float> weight_hh;         ///< [G*H, P]
  std::vector<float> bias_ih, bias_hh;  ///< [G*H], zeros if the source has none
  std::vector<float> weight_hr;         ///< [P, H], or empty
  std::vector<float> weight_peephole;   ///< [3, H] for i f o, or empty

  std::int64_t gates() const { return kernels::recurrent::gates_of(type); }
};

/// The cell with the same results, but for the rounding of sums of biases. Throws
/// ErrorCode::kUnsupported, naming `layer`, for activations and combinations that Sluice lacks, and
/// kFormat for a tensor that is missing or of another shape.
CanonicalCell to_canonical(const SourceCell& cell, std::string_view layer);

/// The inverse: the cell in the layout of another program. Throws ErrorCode::kUnsupported for what
/// that program lacks: a projection or peepholes in Keras, a GRU that resets after the product in
/// GRUCell.
SourceCell from_canonical(const CanonicalCell& cell, Convention convention, std::string_view layer);

/// A cell of zeros, whose output is zero at every step.
CanonicalCell zero_cell(const CanonicalCell& like, std::int64_t input);

}  // namespace sluice::interchange
