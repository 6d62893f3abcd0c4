#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/source_model.h"

namespace sluice::interchange {

/// The numbers of a cell, gate by gate. Rows are those of canonical weights; `order` names the
/// gates, such as "ifgo" or "zrn", in the order in which they stand.
struct GateBlocks {
  std::string order;
  std::int64_t hidden = 0, input = 0, output = 0;
  std::vector<float> weight_ih;         ///< [G*H, input]
  std::vector<float> weight_hh;         ///< [G*H, output]
  std::vector<float> bias_ih, bias_hh;  ///< [G*H]
  std::string peephole_order = "ifo";
  std::vector<float> weight_peephole;  ///< [3*H], or empty
  std::vector<float> weight_hr;        ///< [output, H], or empty

  /// The same with the gates in another order.
  GateBlocks in_order(std::string_view wanted, std::string_view wanted_peepholes = "ifo") const;
  /// Where the rows of a gate begin; gates that the order lacks are a bug.
  std::int64_t row_of(char gate) const;
};

/// Takes a cell's tensors apart. Throws ErrorCode::kFormat, naming `layer`, for a tensor that is
/// missing or of another shape than Convention says.
GateBlocks blocks_of(const SourceCell& cell, std::string_view layer);

/// The gates of a cell of Sluice: "ifgo", "rzn" or "n".
std::string_view canonical_order(CellKind kind);

/// The inverse: sets the tensors of `cell`, whose convention, kind, sizes and flags are set, from
/// blocks in canonical order.
void set_tensors(SourceCell& cell, const GateBlocks& canonical);

}  // namespace sluice::interchange
