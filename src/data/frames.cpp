#include "data/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/check.h"
#include "data/zip_archive.h"

namespace sluice::data {
namespace {

namespace fs = std::filesystem;
using base::fail;

std::vector<fs::path> arrays_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".npy") paths.push_back(entry.path());
  }
  if (paths.empty()) {
    fail(ErrorCode::kNotFound, "the folder '{}' has no .npy files", folder.string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// What an array may be called, for it names files.
void check_name(const fs::path& path, std::string_view name) {
  if (!name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
      name.find('\0') == std::string_view::npos) {
    return;
  }
  fail(ErrorCode::kFormat, "'{}' has an array of the name '{}', which no file can have",
       path.string(), name.substr(0, 200));
}

void for_each_member(const fs::path& path, const UseArray& use) {
  ZipArchive archive(path);
  if (archive.members().empty()) {
    fail(ErrorCode::kNotFound, "'{}' has no arrays", path.string());
  }
  for (const ZipArchive::Member& member : archive.members()) {
    std::string_view name = member.name;
    if (name.ends_with(".npy")) name.remove_suffix(4);
    check_name(path, name);
    const std::string where = fmt::format("'{}' array '{}'", path.string(), name.substr(0, 200));
    archive.open(member);
    use(where, std::string(name),
        read_npy([&](std::span<char> out) { return archive.read(out); }, where));
  }
}

/// An array as sequences: the axes [sequences, time, width], of which the first and the last may be
/// missing.
struct Axes {
  std::int64_t sequences, time, width;
};

Axes axes_of(const NpyArray& array, const std::string& where) {
  const auto& shape = array.shape;
  if (shape.size() == 1) return {1, shape[0], 1};
  if (shape.size() == 2) return {1, shape[0], shape[1]};
  if (shape.size() == 3) return {shape[0], shape[1], shape[2]};
  fail(ErrorCode::kFormat,
       "{}: an array of shape {} is no sequence; it must be [time, features], or [sequences, time, "
       "features]",
       where, to_string(shape));
}

/// An array of many sequences must hold something, for their number is only what a header says.
void check_sequences(const NpyArray& array, const std::string& where) {
  if (array.shape.size() > 1 && array.element_count() == 0 && array.shape[0] > 0) {
    fail(ErrorCode::kFormat, "{}: an array of shape {} holds nothing", where,
         to_string(array.shape));
  }
}

std::string name_of(const std::string& where, const Axes& axes, std::int64_t i) {
  return axes.sequences == 1 ? where : fmt::format("{} sequence {}", where, i);
}

/// Of `count` sequences of the array `name`.
void add_keys(const std::string& name, std::int64_t count, std::vector<std::string>& keys) {
  for (std::int64_t i = 0; i < count; ++i) {
    keys.push_back(count == 1 ? name : fmt::format("{} sequence {}", name, i));
  }
}

void check_finite(std::span<const float> frames, const Axes& axes, const std::string& name,
                  std::string_view what) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (std::isfinite(frames[i])) continue;
    const auto at = static_cast<std::int64_t>(i);
    fail(ErrorCode::kFormat,
         "{}: frame {}, column {} (counted from 0) is {}; {} must be finite numbers of float32",
         name, at / axes.width, at % axes.width, std::isnan(frames[i]) ? "nan" : "infinite", what);
  }
}

void add_labels(const std::string& where, const NpyArray& array, std::int64_t classes,
                LabelSequences& sequences) {
  if (!array.is_integer) {
    fail(ErrorCode::kFormat, "{}: it holds floating-point numbers; labels are integers", where);
  }
  if (array.shape.size() != 1 && array.shape.size() != 2) {
    fail(ErrorCode::kFormat,
         "{}: an array of shape {} isn't labels; it must be [time], or [sequences, time]", where,
         to_string(array.shape));
  }
  check_sequences(array, where);
  const Axes axes{array.shape.size() == 2 ? array.shape[0] : 1, array.shape.back(), 1};
  for (std::int64_t i = 0; i < axes.sequences; ++i) {
    sequences.names.push_back(name_of(where, axes, i));
    std::vector<std::int32_t>& labels = sequences.labels.emplace_back();
    for (std::int64_t t = 0; t < axes.time; ++t) {
      const std::int64_t label = array.integers[static_cast<std::size_t>(i * axes.time + t)];
      if (label < 0 || label >= classes) {
        fail(ErrorCode::kFormat, "{}: the label of frame {} is {}; classes are 0 to {}",
             sequences.names.back(), t, label, classes - 1);
      }
      labels.push_back(static_cast<std::int32_t>(label));
    }
  }
}

/// Calls add(where, array) for each array, then gives its sequences keys.
template <typename Sequences, typename Add>
Sequences read_sequences(const fs::path& path, const Add& add) {
  Sequences sequences;
  std::int64_t arrays = 0;
  for_each_array(path,
                 [&](const std::string& where, const std::string& name, const NpyArray& array) {
                   const std::int64_t before = sequences.size();
                   add(where, array, sequences);
                   add_keys(name, sequences.size() - before, sequences.keys);
                   ++arrays;
                 });
  if (arrays == 1) sequences.keys.clear();
  return sequences;
}

}  // namespace

void add_sequences(const std::string& where, const NpyArray& array, FrameSequences& sequences,
                   std::string_view what) {
  if (array.is_integer) {
    fail(ErrorCode::kFormat, "{}: it holds integers; {} are float16, float32 or float64", where,
         what);
  }
  check_sequences(array, where);
  const Axes axes = axes_of(array, where);
  if (axes.width < 1) fail(ErrorCode::kFormat, "{}: its frames have no {}", where, what);
  if (sequences.size() > 0 && axes.width != sequences.width) {
    fail(ErrorCode::kFormat, "{}: its frames have {} {}, but those of {} have {}", where,
         axes.width, what, sequences.names.front(), sequences.width);
  }
  sequences.width = axes.width;
  const auto count = static_cast<std::size_t>(axes.time * axes.width);
  for (std::int64_t i = 0; i < axes.sequences; ++i) {
    const auto frames = std::span(array.floats).subspan(static_cast<std::size_t>(i) * count, count);
    sequences.names.push_back(name_of(where, axes, i));
    check_finite(frames, axes, sequences.names.back(), what);
    sequences.values.insert(sequences.values.end(), frames.begin(), frames.end());
    sequences.first_frame.push_back(sequences.first_frame.back() + axes.time);
  }
}

void for_each_array(const fs::path& path, const UseArray& use) {
  const auto use_file = [&](const fs::path& file) {
    use(fmt::format("'{}'", file.string()), file.stem().string(), read_npy(file));
  };
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    for (const fs::path& file : arrays_in(path)) use_file(file);
  } else if (path.extension() == ".npz") {
    for_each_member(path, use);
  } else {
    use_file(path);
  }
}

FrameSequences read_frames(const fs::path& path, std::string_view what) {
  return read_sequences<FrameSequences>(
      path, [&](const std::string& where, const NpyArray& array, FrameSequences& sequences) {
        add_sequences(where, array, sequences, what);
      });
}

LabelSequences read_frame_labels(const fs::path& path, std::int64_t classes) {
  return read_sequences<LabelSequences>(
      path, [&](const std::string& where, const NpyArray& array, LabelSequences& sequences) {
        add_labels(where, array, classes, sequences);
      });
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
  const auto width = static_cast<std::size_t>(sequences.width);
  const double frames = std::max(1.0, static_cast<double>(sequences.first_frame.back()));
  FrameStatistics result{std::vector<double>(width), std::vector<double>(width)};
  for (std::size_t i = 0; i < sequences.values.size(); ++i) {
    result.mean[i % width] += static_cast<double>(sequences.values[i]);
  }
  for (double& mean : result.mean) mean /= frames;
  for (std::size_t i = 0; i < sequences.values.size(); ++i) {
    const double difference = static_cast<double>(sequences.values[i]) - result.mean[i % width];
    result.deviation[i % width] += difference * difference;
  }
  for (double& deviation : result.deviation) deviation = std::sqrt(deviation / frames);
  return result;
}

}  // namespace sluice::data
