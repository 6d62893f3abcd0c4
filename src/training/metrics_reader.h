#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace sluice::training {

/// Values by step.
using Curve = std::map<std::int64_t, double>;

struct Metrics {
  std::map<std::string, Curve> curves;  ///< by tag, such as "train/loss"
  std::vector<std::string> notes;       ///< for people: files that end within a record
};

/// The scalars in all event files of a folder as MetricsLog writes them, in the order of the files'
/// names. As in TensorBoard, a file that begins with a session start at some step replaces what
/// files before it have from that step on. A record that is cut short at the end of a file, as a
/// killed run or a full disk leaves it, is noted and left out. Throws ErrorCode::kNotFound if there
/// is no event file, ErrorCode::kFormat with file and byte for a checksum that does not fit and for
/// what is no event.
Metrics read_metrics(const std::filesystem::path& directory);

}  // namespace sluice::training
