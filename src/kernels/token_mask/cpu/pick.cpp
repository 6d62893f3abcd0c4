#include <algorithm>

#include "kernels/token_mask/cpu/token_mask.h"

namespace sluice::kernels::token_mask::cpu {

void pick(Stream& stream, const Tensor& of_steps, const Tensor& step, const Tensor& mask) {
  stream.launch([=] {
    const std::int64_t steps = of_steps.size(0), inputs = of_steps.size(1);
    const std::int64_t rows = mask.size(0), words = mask.size(1), rows_of_input = rows / inputs;
    const std::int64_t now = std::min<std::int64_t>(*step.data_as<const std::int32_t>(), steps - 1);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t from = now * inputs + row / rows_of_input;
      std::copy_n(of_steps.data_as<const std::int32_t>() + from * words, words,
                  mask.data_as<std::int32_t>() + row * words);
    }
  });
}

}  // namespace sluice::kernels::token_mask::cpu
