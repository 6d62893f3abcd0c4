#pragma once

#include <optional>
#include <string>

#include "kernels/attention_decoder/attention_decoder.h"
#include "kernels/attention_decoder/carver.h"
#include "kernels/attention_decoder/cuda/persistent/backward_arguments.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {

/// Why steps are not run in one launch, forward's and, in training, backward's; or nothing.
std::optional<std::string> refuse(const Descriptor& descriptor, const runtime::Device& device);

/// What a launch needs beside the buffers of single steps.
template <typename S>
struct Scratch {
  S* projected = nullptr;             ///< [B, S, A]
  std::byte* exchange = nullptr;      ///< kExchangeBytes
  std::uint32_t* counters = nullptr;  ///< kCountersBytes
  float* parts = nullptr;             ///< kPartsCount
};

template <typename S>
Scratch<S> carve_scratch(const Extents& extents, std::int64_t padded_output, Carver& carver) {
  Scratch<S> scratch;
  scratch.projected = carver.take<S>(extents.rows * extents.source_time * padded_output);
  scratch.exchange = carver.take<std::byte>(kExchangeBytes);
  scratch.counters = carver.take<std::uint32_t>(kCountersBytes / 4);
  scratch.parts = carver.take<float>(kPartsCount);
  return scratch;
}

template <typename S>
struct BackwardLaunchScratch {
  S* projected = nullptr;             ///< [B, S, A]
  std::byte* exchange = nullptr;      ///< kPublishedBytesAll
  std::uint32_t* counters = nullptr;  ///< kPublishedCountersBytes
  float* parts = nullptr;             ///< kPartsAll
};

template <typename S>
BackwardLaunchScratch<S> carve_backward_scratch(const Extents& extents, std::int64_t padded_output,
                                                Carver& carver) {
  BackwardLaunchScratch<S> scratch;
  scratch.projected = carver.take<S>(extents.rows * extents.source_time * padded_output);
  scratch.exchange = carver.take<std::byte>(kPublishedBytesAll);
  scratch.counters = carver.take<std::uint32_t>(kPublishedCountersBytes / 4);
  scratch.parts = carver.take<float>(kPartsAll);
  return scratch;
}

/// Queues all steps.
template <typename S>
void launch(Stream& stream, const Arguments<S>& args);
template <typename S>
void launch(Stream& stream, const BackwardArguments<S>& args);

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
