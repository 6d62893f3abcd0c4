#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "io/file.h"
#include "sluice/warnings.h"
#include "training/histogram.h"

namespace sluice::training {

/// Metrics for TensorBoard: one new event file a run in a folder, which is made if it is not there.
///
/// The file is a row of TFRecords (length, its checksum, payload, its checksum; checksums masked),
/// each an Event message of TensorBoard's event.proto, encoded by hand.
///
/// Metrics are an extra: if the disk refuses them, there is one warning, nothing more is
/// written and training goes on.
class MetricsLog {
 public:
  /// `first_step` is the first step that this run will write. A resumed run thereby tells
  /// TensorBoard to forget what a run that was killed wrote from that step on, in the files before.
  /// `warnings` (base/warn.h) must outlive this.
  MetricsLog(const std::filesystem::path& directory, std::int64_t first_step,
             const WarningHandler* warnings = nullptr);

  /// One value of the curve `tag`, such as "train/loss".
  void scalar(std::string_view tag, std::int64_t step, double value);

  /// The distribution of some numbers after a step.
  void histogram(std::string_view tag, std::int64_t step, const Histogram& histogram);

  /// A picture of width x height pixels; `png` is the content of such a file.
  void image(std::string_view tag, std::int64_t step, std::int64_t width, std::int64_t height,
             std::string_view png);

  /// The file that this run writes; empty if it could not be made.
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_event(std::string_view event);

  const WarningHandler* warnings_;
  std::filesystem::path path_;
  std::optional<io::File> file_;
};

}  // namespace sluice::training
