#include "base/check.h"

namespace sluice::base {

void fail_assertion(const char* file, int line, const char* condition) {
  fail(ErrorCode::kInternal, "internal error at {}:{}: {} does not hold; please report it", file,
       line, condition);
}

}  // namespace sluice::base
