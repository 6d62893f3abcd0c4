#include "oracle/matrix_tile_body.h"

namespace sluice::oracle {

void tile_avx512(int64_t depth, const double* a, const double* b, double* acc) {
  tile_body<64>(depth, a, b, acc);
}

}  // namespace sluice::oracle
