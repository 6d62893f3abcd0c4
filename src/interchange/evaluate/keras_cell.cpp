#include "base/check.h"
#include "interchange/evaluate/cell_equations.h"

namespace sluice::interchange {

std::unique_ptr<CellEquations> keras_equations(const SourceCell&) {
  base::fail(ErrorCode::kUnsupported, "to be written");
}

}  // namespace sluice::interchange
