#include "kernels/matmul/onednn/product.h"
#include "kernels/onednn_part.h"
#include "kernels/recurrent/onednn/int8.h"
#include "kernels/recurrent/onednn/stack.h"
#include "runtime/build_id.h"

extern "C" [[gnu::visibility("default")]] const sluice::runtime::Part* sluice_onednn_part() {
  namespace kernels = sluice::kernels;
  static const kernels::OnednnPart part{{sluice::runtime::build_id()},
                                        kernels::matmul::onednn::multiply,
                                        &kernels::recurrent::onednn::kStack,
                                        &kernels::recurrent::onednn::kInt8Stack};
  return &part;
}
