#pragma once

#include "runtime/profiler.h"

namespace sluice::profiling {

/// Two steps of ten milliseconds, by the names of their times: each 1 ms of embedding, 6 ms of
/// encoder of which 4 ms are its layer's, and 3 ms that belong to nothing.
inline runtime::Profile sample_profile() {
  constexpr std::int64_t kMs = 1'000'000, kBegin = 1'000'000'000;
  runtime::Profile profile;
  profile.step_name = "step";
  profile.first_step = 6;
  profile.last_step = 7;
  profile.steps = 2;
  profile.begin = kBegin;
  profile.end = kBegin + 20 * kMs;
  profile.labels = {
      {"step", ""}, {"embedding", "forward"}, {"encoder", "forward"}, {"encoder.l0", "forward"}};
  for (const std::int64_t step : {0, 1}) {
    const std::int64_t at = kBegin + step * 10 * kMs;
    profile.spans.push_back({1, 0, at, at + 1 * kMs, 0});
    profile.spans.push_back({3, 0, at + 2 * kMs, at + 6 * kMs, 0});
    profile.spans.push_back({2, 0, at + 1 * kMs, at + 7 * kMs, 4 * kMs});
    profile.spans.push_back({0, 6 + step, at, at + 10 * kMs, 7 * kMs});
  }
  return profile;
}

/// The same on a GPU: in each step the embedding's kernel runs for 2 ms, the layer's for 4 ms on
/// two streams, the second beside the first for its last 2 ms, and a copy of nobody's for 1 ms.
inline runtime::Profile sample_gpu_profile() {
  constexpr std::int64_t kMs = 1'000'000;
  runtime::Profile profile = sample_profile();
  profile.has_device = true;
  profile.device.names = {"gather", "lstm_forward", "copy"};
  for (const std::int64_t step : {0, 1}) {
    const std::int64_t at = profile.begin + step * 10 * kMs;
    profile.device.work.push_back({at + 3 * kMs, at + 7 * kMs, 1, 3, 7});
    profile.device.work.push_back({at + 1 * kMs, at + 3 * kMs, 0, 1, 7});
    profile.device.work.push_back({at + 5 * kMs, at + 7 * kMs, 1, 2, 13});
    profile.device.work.push_back({at + 7 * kMs, at + 8 * kMs, 2, runtime::kNoLabel, 7});
  }
  return profile;
}

}  // namespace sluice::profiling
