#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "bench/workload.h"
#include "sluice/feature_model.h"

namespace sluice::bench {

/// A folder for what lives as long as this, under the system's folder for temporary files.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The layers of a shape as a FeatureModel of include/sluice: written as a checkpoint and opened,
/// as a program that embeds the library does. Frames are not normalised and there is no output
/// layer, so a step is the recurrent layers' alone.
class StreamedModel {
 public:
  /// Throws ErrorCode::kUnsupported with the reason for a shape that can't be streamed: one row,
  /// one direction, float32, and cells without extras.
  explicit StreamedModel(const BenchShape& shape);

  const BenchShape& shape() const { return shape_; }
  const HostData& data() const { return data_; }
  /// Which implementation steps.
  const std::string& implementation() const { return implementation_; }
  /// Milliseconds a step, over `steps` calls of one step each. The shape's frames come in turn.
  double run(std::int64_t steps);
  /// Answers to the shape's frames, one call each, from the start of a sequence. [time, outputs]
  std::vector<float> answers();

 private:
  BenchShape shape_;
  HostData data_;
  std::string implementation_;
  std::vector<float> frames_;
  std::optional<FeatureModel> model_;
  std::size_t next_ = 0;  ///< frame
};

/// Why the shape has no single steps to measure, if it has none.
std::optional<std::string> refuse_steps(const BenchShape& shape);

}  // namespace sluice::bench
