#include "kernels/token_mask/cpu/token_mask.h"

#include <algorithm>
#include <limits>

#include "base/dtype.h"
#include "kernels/token_mask/rules.h"

namespace sluice::kernels::token_mask::cpu {
namespace {

void update_row(const View& v, std::int64_t row) {
  const std::int64_t length = v.length(), words = words_of(v.extent.vocabulary);
  std::int32_t* tokens = v.history_of(row, length);
  if (length > 0) {
    std::copy_n(v.history_before(row, length), length - 1, tokens);
    tokens[length - 1] = v.tokens[row];
  }
  std::int32_t* mask = v.mask + row * words;
  std::copy_n(v.allowed, words, mask);
  const auto forbid = [&](std::int32_t token) {
    if (token >= 0) mask[token / 32] = without_bit(mask[token / 32], token);
  };
  for (std::int64_t place = 0; v.no_repeat > 0 && place < length; ++place) {
    forbid(repeated_at(place, tokens, length, v.no_repeat));
  }
  for (std::int64_t p = 0, begin = 0; p < v.extent.phrases; begin = v.phrase_ends[p++]) {
    forbid(completion_of(v.phrase_tokens + begin, v.phrase_ends[p] - begin, tokens, length));
  }
}

template <typename T>
void apply_row(const std::int32_t* mask, const T* logits, std::int64_t vocabulary, T* out) {
  for (std::int64_t token = 0; token < vocabulary; ++token) {
    out[token] = has_bit(mask, token) ? logits[token] : -std::numeric_limits<T>::infinity();
  }
}

}  // namespace

void update(Stream& stream, const Rules& rules, const State& state, const Tensor& step,
            const Tensor& tokens, const Tensor& parents) {
  stream.launch([view = View(rules, state, step, tokens, parents)] {
    const std::int64_t rows = view.extent.rows;
#pragma omp parallel for schedule(static) if (rows * view.extent.vocabulary > 65536)
    for (std::int64_t row = 0; row < rows; ++row) update_row(view, row);
  });
}

void apply(Stream& stream, const Tensor& mask, const Tensor& logits, const Tensor& out) {
  base::dispatch_master(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([=] {
      const std::int64_t rows = logits.size(0), vocabulary = logits.size(1);
#pragma omp parallel for schedule(static) if (rows * vocabulary > 16384)
      for (std::int64_t row = 0; row < rows; ++row) {
        apply_row(mask.data_as<const std::int32_t>() + row * words_of(vocabulary),
                  logits.data_as<const T>() + row * vocabulary, vocabulary,
                  out.data_as<T>() + row * vocabulary);
      }
    });
  });
}

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
