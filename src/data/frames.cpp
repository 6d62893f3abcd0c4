#include "data/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/check.h"

namespace sluice::data {
namespace {

namespace fs = std::filesystem;
using base::fail;

/// An array as sequences: the axes [sequences, time, width], of which the first and the last may be
/// missing.
struct Axes {
  std::int64_t sequences, time, width;
};

Axes axes_of(const io::NpyArray& array, const std::string& where) {
  const auto& shape = array.shape;
  if (shape.size() == 1) return {1, shape[0], 1};
  if (shape.size() == 2) return {1, shape[0], shape[1]};
  if (shape.size() == 3) return {shape[0], shape[1], shape[2]};
  fail(ErrorCode::kFormat,
       "{}: an array of shape {} is not a sequence of frames; it must be [time, features], or "
       "[sequences, time, "
       "features]",
       where, io::to_string(shape));
}

/// An array of many sequences must hold something, for their number is only what a header says.
void check_sequences(const io::NpyArray& array, const std::string& where) {
  if (array.shape.size() > 1 && array.element_count() == 0 && array.shape[0] > 0) {
    fail(ErrorCode::kFormat, "{}: an array of shape {} holds nothing", where,
         io::to_string(array.shape));
  }
}

/// Which sequences of an array the ones that are read are: from `first` on, of `all`.
struct Part {
  std::int64_t first, all;
};

/// What the i-th sequence of a part is called after its array.
std::string name_of(const std::string& array, const Part& part, std::int64_t i) {
  return part.all == 1 ? array : fmt::format("{} sequence {}", array, part.first + i);
}

void check_width(const std::string& where, std::int64_t width, std::int64_t wanted,
                 const std::string& first, std::string_view what) {
  if (width == wanted) return;
  fail(ErrorCode::kFormat, "{}: its frames have {} {}, but those of {} have {}", where, width, what,
       first, wanted);
}

void add_part(const std::string& where, const io::NpyArray& array, const Part& part,
              FrameSequences& sequences, std::string_view what) {
  if (array.is_integer) {
    fail(ErrorCode::kFormat, "{}: it holds integers; {} are float16, float32 or float64", where,
         what);
  }
  check_sequences(array, where);
  const Axes axes = axes_of(array, where);
  if (axes.width < 1) fail(ErrorCode::kFormat, "{}: its frames have no {}", where, what);
  if (sequences.size() > 0) {
    check_width(where, axes.width, sequences.width, sequences.names.front(), what);
  }
  sequences.width = axes.width;
  const auto count = static_cast<std::size_t>(axes.time * axes.width);
  for (std::int64_t i = 0; i < axes.sequences; ++i) {
    const auto frames = std::span(array.floats).subspan(static_cast<std::size_t>(i) * count, count);
    sequences.names.push_back(name_of(where, part, i));
    require_finite(frames, axes.width, sequences.names.back(), what);
    sequences.values.insert(sequences.values.end(), frames.begin(), frames.end());
    sequences.first_frame.push_back(sequences.first_frame.back() + axes.time);
  }
}

/// What a piece is checked for.
struct LabelRange {
  LabelKind kind;
  std::int64_t classes;
};

void add_part(const std::string& where, const io::NpyArray& array, const Part& part,
              LabelSequences& sequences, const LabelRange& range) {
  const bool resets = range.kind == LabelKind::kResets;
  if (!array.is_integer) {
    fail(ErrorCode::kFormat, "{}: it holds floating-point numbers; {}", where,
         resets ? "resets are bools, or integers 0 and 1" : "labels are integers");
  }
  if (array.shape.size() != 1 && array.shape.size() != 2) {
    fail(ErrorCode::kFormat,
         "{}: an array of shape {} is not {}; it must be [time], or [sequences, time]", where,
         io::to_string(array.shape), resets ? "resets" : "labels");
  }
  check_sequences(array, where);
  const Axes axes{array.shape.size() == 2 ? array.shape[0] : 1, array.shape.back(), 1};
  for (std::int64_t i = 0; i < axes.sequences; ++i) {
    sequences.names.push_back(name_of(where, part, i));
    std::vector<std::int32_t>& labels = sequences.labels.emplace_back();
    for (std::int64_t t = 0; t < axes.time; ++t) {
      const std::int64_t label = array.integers[static_cast<std::size_t>(i * axes.time + t)];
      if (label < 0 || label >= range.classes) {
        fail(ErrorCode::kFormat, "{}: the {} of frame {} is {}; {} are 0 to {}",
             sequences.names.back(), resets ? "reset" : "label", t, label,
             resets ? "resets" : "classes", range.classes - 1);
      }
      labels.push_back(static_cast<std::int32_t>(label));
    }
  }
}

/// Reads on: the next piece's sequences, with their keys; `as` is what they are checked for.
template <typename Sequences, typename As>
bool add_piece(io::ArrayReader& arrays, Sequences& sequences, const As& as) {
  const std::optional<io::ArrayPiece> piece = arrays.next();
  if (!piece) return false;
  const Part part{piece->first, piece->sequences};
  const std::int64_t before = sequences.size();
  add_part(piece->where, piece->array, part, sequences, as);
  for (std::int64_t i = 0; i < sequences.size() - before; ++i) {
    sequences.keys.push_back(name_of(piece->name, part, i));
  }
  return true;
}

/// Axes of a sequence of frames, and of one of labels.
constexpr std::size_t kFrameAxes = 2, kLabelAxes = 1;

}  // namespace

void require_finite(std::span<const float> frames, std::int64_t width, const std::string& name,
                    std::string_view what, ErrorCode code) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (std::isfinite(frames[i])) continue;
    const auto at = static_cast<std::int64_t>(i);
    fail(code, "{}: frame {}, column {} (counted from 0) is {}; {} must be finite numbers", name,
         at / width, at % width, std::isnan(frames[i]) ? "nan" : "infinite in float32", what);
  }
}

void add_sequences(const std::string& where, const io::NpyArray& array, FrameSequences& sequences,
                   std::string_view what, const std::string& name) {
  const Part part{0, array.shape.size() > kFrameAxes ? array.shape[0] : 1};
  add_part(where, array, part, sequences, what);
  for (std::int64_t i = 0; !name.empty() && i < part.all; ++i) {
    sequences.keys.push_back(name_of(name, part, i));
  }
}

FrameReader::FrameReader(const fs::path& path, std::string_view what)
    : arrays_(path, kFrameAxes), what_(what) {}

bool FrameReader::next() {
  ++at_;
  while (at_ >= piece_.names.size()) {
    const std::int64_t width = piece_.width;
    piece_ = {};
    if (!add_piece(arrays_, piece_, std::string_view(what_))) return false;
    at_ = 0;
    if (piece_.size() == 0) {
      piece_.width = width;
    } else if (first_name_.empty()) {
      first_name_ = piece_.names.front();
    } else {
      check_width(piece_.names.front(), piece_.width, width, first_name_, what_);
    }
  }
  return true;
}

LabelReader::LabelReader(const fs::path& path, std::int64_t classes, LabelKind kind)
    : arrays_(path, kLabelAxes), classes_(classes), kind_(kind) {}

bool LabelReader::next() {
  ++at_;
  while (at_ >= piece_.names.size()) {
    piece_ = {};
    if (!add_piece(arrays_, piece_, LabelRange{kind_, classes_})) return false;
    at_ = 0;
  }
  return true;
}

void for_each_array(const fs::path& path, const UseArray& use) {
  // No array has so many axes that it would come in pieces.
  io::ArrayReader arrays(path, std::numeric_limits<std::size_t>::max());
  while (const auto piece = arrays.next()) use(piece->where, piece->name, piece->array);
}

FrameSequences select(const FrameSequences& all, std::span<const std::int64_t> indices) {
  FrameSequences chosen;
  chosen.width = all.width;
  if (all.size() == 0) return chosen;
  for (const std::int64_t i : indices) {
    const auto frames = all.frames(i);
    chosen.names.push_back(all.names[static_cast<std::size_t>(i)]);
    if (!all.keys.empty()) chosen.keys.push_back(all.keys[static_cast<std::size_t>(i)]);
    chosen.values.insert(chosen.values.end(), frames.begin(), frames.end());
    chosen.first_frame.push_back(chosen.first_frame.back() + all.length(i));
  }
  return chosen;
}

FrameStatistics statistics_of(const FrameSequences& sequences) {
  return statistics_of(sequences.width, [&](const auto& use) { use(sequences.values); });
}

FrameStatistics statistics_of(std::int64_t frame_width, const VisitFrames& visit) {
  const auto width = static_cast<std::size_t>(frame_width);
  FrameStatistics result{std::vector<double>(width), std::vector<double>(width)};
  std::size_t numbers = 0;
  visit([&](std::span<const float> frames) {
    numbers += frames.size();
    for (std::size_t i = 0; i < frames.size(); ++i) {
      result.mean[i % width] += static_cast<double>(frames[i]);
    }
  });
  const double count = std::max(1.0, static_cast<double>(numbers / width));
  for (double& mean : result.mean) mean /= count;
  visit([&](std::span<const float> frames) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const double difference = static_cast<double>(frames[i]) - result.mean[i % width];
      result.deviation[i % width] += difference * difference;
    }
  });
  for (double& deviation : result.deviation) deviation = std::sqrt(deviation / count);
  return result;
}

}  // namespace sluice::data
