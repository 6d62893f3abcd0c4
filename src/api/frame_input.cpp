#include "api/frame_input.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/counted.h"

namespace sluice {

void api::require_frames(const std::string& path, const models::FeaturesConfig& config,
                         const Frames& frames, const std::string& name) {
  const std::int64_t width = config.features, numbers = std::ssize(frames.values);
  SLUICE_CHECK(numbers == 0 || frames.width == width,
               "{}: its frames have {}, but '{}' was trained on frames of {}", name,
               base::counted(frames.width, "feature"), path, width);
  SLUICE_CHECK(numbers % width == 0, "{} holds {}, which make no whole frames of {}", name,
               base::counted(numbers, "number"), base::counted(width, "feature"));
  data::require_finite(frames.values, width, name, "features", ErrorCode::kInvalidArgument);
  if (frames.resets.empty()) return;
  SLUICE_CHECK(config.is_per_frame(),
               "{} has resets, but '{}' answers whole sequences; give each episode as a sequence",
               name, path);
  SLUICE_CHECK(std::ssize(frames.resets) == frames.time(),
               "{} has {}, but {}; it needs one for each frame", name,
               base::counted(frames.resets.size(), "reset"), base::counted(frames.time(), "frame"));
}

data::FrameCorpus api::frame_corpus(const std::string& path, const models::FeaturesConfig& config,
                                    std::span<const Frames> sequences) {
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    require_frames(path, config, sequences[i], fmt::format("sequence {} (counted from 0)", i));
  }
  data::FrameCorpus corpus;
  corpus.frames.width = config.features;
  const bool any_resets = std::ranges::any_of(
      sequences, [](const Frames& sequence) { return !sequence.resets.empty(); });
  for (const Frames& sequence : sequences) {
    if (any_resets) {
      auto& resets = corpus.resets.emplace_back(static_cast<std::size_t>(sequence.time()));
      std::ranges::transform(sequence.resets, resets.begin(),
                             [](std::uint8_t reset) { return reset != 0 ? 1 : 0; });
    }
    corpus.frames.names.emplace_back();
    corpus.frames.values.insert(corpus.frames.values.end(), sequence.values.begin(),
                                sequence.values.end());
    corpus.frames.first_frame.push_back(corpus.frames.first_frame.back() + sequence.time());
  }
  return corpus;
}

}  // namespace sluice
