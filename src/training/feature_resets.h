#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/frames.h"

namespace sluice::training {

/// Has arrays that belong to those of `features` ("targets", "resets") read in their order: where
/// there are several, they go by the names of the features. Returns whether they do; then each
/// name is of both. Else those in the same place belong together. Throws ErrorCode::kFormat if a
/// name has no partner.
bool pair_by_name(const std::string& features, std::span<const std::string> feature_names,
                  const std::string& file, io::ArrayReader& arrays, std::string_view what);

/// Reads resets (data::FrameCorpus) in step with sequences of frames. They are arrays of bools, or
/// of integers 0 and 1, [time] or [sequences, time].
class ResetReader {
 public:
  /// `features` names the file or folder of the frames, `feature_names` its arrays.
  ResetReader(std::string file, std::string features, std::span<const std::string> feature_names);

  /// Of the next sequence of frames: what it is called, its key (data::FrameReader) and its length.
  /// Throws ErrorCode::kFormat if there are none of that sequence, or of another number of frames;
  /// and as LabelReader.
  std::span<const std::int32_t> next(const std::string& name, const std::string& key,
                                     std::int64_t length);
  /// Behind the last sequence. Throws ErrorCode::kFormat if there are more resets.
  void finish();

 private:
  std::string file_, features_;
  data::LabelReader reader_;
  bool by_name_ = false;  ///< of several features
  std::int64_t at_ = 0;   ///< sequences so far
};

}  // namespace sluice::training
