#include <algorithm>
#include <array>

#include "base/dtype.h"
#include "kernels/sampling/cpu/sampling.h"

namespace sluice::kernels::sampling::cpu {
namespace {

template <typename T>
std::int32_t largest_token(const T* logits, std::int64_t vocabulary) {
  std::int64_t best = 1;
  for (std::int64_t v = 2; v < vocabulary; ++v) {
    // Any number wins over a NaN.
    if (logits[v] > logits[best] || (logits[best] != logits[best] && logits[v] == logits[v])) {
      best = v;
    }
  }
  return static_cast<std::int32_t>(best);
}

/// Drawn by its probability; `likeliest` where there are none.
template <typename T>
std::int32_t drawn_token(const T* logits, std::int64_t vocabulary, std::int32_t likeliest,
                         const std::array<std::uint32_t, 4>& words) {
  const auto weight_of = [&](std::int64_t v) {
    return weight(logits[v], logits[likeliest], Distribution::kUnitScale);
  };
  std::uint64_t total = 0;
  for (std::int64_t v = 1; v < vocabulary; ++v) total += weight_of(v);
  if (total == 0) return likeliest;
  const std::uint64_t place = place_of_draw(words, total);
  std::int64_t v = 1;
  for (std::uint64_t before = weight_of(v); before <= place; before += weight_of(v)) ++v;
  return static_cast<std::int32_t>(v);
}

template <typename T>
void schedule(const ScheduledInputsArgs& args) {
  const std::int64_t vocabulary = args.logits.size(1);
  const std::int64_t last = std::min(args.time, args.tokens.size(0) - 1 - args.first_time);
  const double probability = *args.probability.data_as<const double>();
  const runtime::DropoutKey key = args.source.key();
  const auto* lengths = args.lengths.data_as<const std::int32_t>();
  const auto* ids = args.row_ids.data_as<const std::int32_t>();
#pragma omp parallel for schedule(dynamic, 8)
  for (std::int64_t n = 0; n < last * args.rows; ++n) {
    const std::int64_t fed = args.first_time + n / args.rows + 1, row = n % args.rows;
    const auto id = static_cast<std::uint32_t>(ids == nullptr ? row : ids[row]);
    if (fed >= lengths[row]) continue;
    const auto words = key.words(id, static_cast<std::uint32_t>(fed), 0);
    if (!takes_prediction(words[0], probability)) continue;
    const T* logits = args.logits.data_as<const T>() + n * vocabulary;
    std::int32_t token = largest_token(logits, vocabulary);
    if (args.draws) token = drawn_token(logits, vocabulary, token, words);
    args.tokens.data_as<std::int32_t>()[fed * args.rows + row] = token;
  }
}

}  // namespace

void schedule_inputs(Stream& stream, const ScheduledInputsArgs& args) {
  base::dispatch_master(args.logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { schedule<T>(args); });
  });
}

}  // namespace sluice::kernels::sampling::cpu
