#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/array_reader.h"
#include "sluice/error.h"

namespace sluice::data {

/// Sequences of frames, each as long as it is, of as many numbers a frame.
struct FrameSequences {
  std::int64_t width = 0;          ///< numbers of a frame
  std::vector<std::string> names;  ///< where each stands: "'dev.npz' array 'utt3'"
  /// What each is called in its file or folder of several arrays ("utt3", "utt3 sequence 0"), which
  /// is what others that belong to it are called by; empty: they come from one array.
  std::vector<std::string> keys;
  std::vector<std::int64_t> first_frame{0};  ///< of each, and behind the last
  std::vector<float> values;                 ///< of all frames, one behind the other

  std::int64_t size() const { return static_cast<std::int64_t>(names.size()); }
  std::int64_t length(std::int64_t i) const {
    return first_frame[static_cast<std::size_t>(i) + 1] - first_frame[static_cast<std::size_t>(i)];
  }
  /// [length, width]
  std::span<const float> frames(std::int64_t i) const {
    return std::span(values).subspan(
        static_cast<std::size_t>(first_frame[static_cast<std::size_t>(i)] * width),
        static_cast<std::size_t>(length(i) * width));
  }
};

/// The same of one label a frame.
struct LabelSequences {
  std::vector<std::string> names, keys;
  std::vector<std::vector<std::int32_t>> labels;

  std::int64_t size() const { return static_cast<std::int64_t>(names.size()); }
};

/// Throws unless all numbers of these frames are finite: which sequence (`name`), frame and column
/// is not.
void require_finite(std::span<const float> frames, std::int64_t width, const std::string& name,
                    std::string_view what = "features", ErrorCode code = ErrorCode::kFormat);

/// Adds the sequences of an array, which errors call `where`; those before must be as wide. Leaves
/// keys alone unless the array has a `name`. Errors as FrameReader.
void add_sequences(const std::string& where, const io::NpyArray& array, FrameSequences& sequences,
                   std::string_view what = "features", const std::string& name = {});

/// Reads sequences of numbers from a .npy file, from every array of a .npz file in their order, or
/// from every .npy file of a folder in the order of their names: the way to give sequences of
/// different lengths is a .npz file or a folder with an array each. One sequence comes after the
/// other, with no more of them in memory than a piece of an ArrayReader. By its axes an array is
///
///   [time]                        one sequence, one number a frame
///   [time, features]              one sequence
///   [sequences, time, features]   several of one length
///
/// Throws ErrorCode::kFormat, with the file and what in it, for arrays that aren't of
/// floating-point numbers, that differ in features, and for numbers that aren't finite in float32
/// (with frame and column, counted from 0); ErrorCode::kNotFound if there is no such file or no
/// array; and as read_npy and ZipArchive.
///
/// Errors call the numbers `what`.
class FrameReader {
 public:
  explicit FrameReader(const std::filesystem::path& path, std::string_view what = "features");

  /// Of arrays, several of which stand for themselves.
  io::ArrayReader& arrays() { return arrays_; }
  const io::ArrayReader& arrays() const { return arrays_; }
  /// Moves on to the next sequence, the first at first; false: there is none.
  bool next();

  std::string name() const { return piece_.names[at_]; }
  std::string key() const { return piece_.keys[at_]; }  ///< also of a single array
  std::int64_t length() const { return piece_.length(static_cast<std::int64_t>(at_)); }
  std::int64_t width() const { return piece_.width; }
  std::span<const float> frames() const { return piece_.frames(static_cast<std::int64_t>(at_)); }

 private:
  io::ArrayReader arrays_;
  std::string what_;
  std::string first_name_;
  FrameSequences piece_;
  std::size_t at_ = 0;
};

/// What a LabelReader reads, for its errors.
enum class LabelKind { kLabels, kResets };

/// Reads labels, integers from 0 on, likewise: [time] is one sequence, [sequences, time] several.
/// Those below 0 or not below `classes` are refused. Resets (FrameCorpus) are labels of two
/// classes.
class LabelReader {
 public:
  LabelReader(const std::filesystem::path& path, std::int64_t classes,
              LabelKind kind = LabelKind::kLabels);

  io::ArrayReader& arrays() { return arrays_; }
  bool next();

  std::string name() const { return piece_.names[at_]; }
  std::string key() const { return piece_.keys[at_]; }
  std::span<const std::int32_t> labels() const { return piece_.labels[at_]; }

 private:
  io::ArrayReader arrays_;
  std::int64_t classes_;
  LabelKind kind_;
  LabelSequences piece_;
  std::size_t at_ = 0;
};

/// Those at `indices`, in their order.
FrameSequences select(const FrameSequences& all, std::span<const std::int64_t> indices);

/// Calls use(where, name, array) for each array in turn, as ArrayReader has them, but whole.
using UseArray = std::function<void(const std::string& where, const std::string& name,
                                    const io::NpyArray& array)>;
void for_each_array(const std::filesystem::path& path, const UseArray& use);

/// Mean and standard deviation of each number of a frame, over all frames.
struct FrameStatistics {
  std::vector<double> mean;
  std::vector<double> deviation;
};
FrameStatistics statistics_of(const FrameSequences& sequences);
/// The same of frames that aren't in memory: visit(use) is called twice and calls use(frames) with
/// pieces of whole frames, in their order.
using VisitFrames = std::function<void(const std::function<void(std::span<const float>)>& use)>;
FrameStatistics statistics_of(std::int64_t width, const VisitFrames& visit);

}  // namespace sluice::data
