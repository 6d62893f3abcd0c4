#include "interchange/onnx/onnx_budget.h"

#include "base/check.h"
#include "interchange/onnx/onnx_constants.h"
#include "io/formats/stored_tensor.h"

namespace sluice::interchange::onnx {

void Budget::charge(const Constant& constant, const std::string& reader) {
  constexpr std::size_t kCopies = 8;
  const auto count =
      static_cast<std::size_t>(io::formats::checked_count(sizes_of(constant), reader));
  const std::size_t bytes = base::checked_mul(count, sizeof(double));
  if (constant.stored != nullptr && seen_.insert(constant.stored).second) {
    // The file holds these bytes. External ones are not known to exist yet.
    if (!constant.stored->external) {
      allowed_ = base::checked_add(allowed_, base::checked_mul(kCopies, bytes));
    }
    return;
  }
  used_ = base::checked_add(used_, bytes);
  if (used_ > allowed_) {
    base::fail(ErrorCode::kUnsupported,
               "{} copies constants that the graph uses again and again; export the model with "
               "constant folding",
               reader);
  }
}

}  // namespace sluice::interchange::onnx
