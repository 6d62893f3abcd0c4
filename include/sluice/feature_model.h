#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/model_info.h"
#include "sluice/profile.h"
#include "sluice/state_files.h"

namespace sluice {

/// A sequence of frames, or of answers to them: values [time, width], one frame behind the other.
/// `values` holds whole frames.
struct Frames {
  std::int64_t width = 0;
  std::vector<float> values;
  /// Where episodes begin within the sequence, as in reinforcement learning: a number for each
  /// frame, not 0 where no state passes from the frame before (docs/equations.md). Empty: nowhere;
  /// and so in answers.
  std::vector<std::uint8_t> resets{};

  std::int64_t time() const {
    return width == 0 ? 0 : static_cast<std::int64_t>(values.size()) / width;
  }
};

/// A trained recurrent stack on dense features, on a device. Not thread-safe.
class FeatureModel {
 public:
  /// Opens a checkpoint folder or its model.safetensors. Throws ErrorCode::kInvalidArgument for a
  /// model of another kind, with the commands that use it.
  static FeatureModel load(const std::string& path, const Placement& placement = {});
  ~FeatureModel();
  FeatureModel(FeatureModel&&) noexcept;
  FeatureModel& operator=(FeatureModel&&) noexcept;

  std::int64_t features() const;  ///< numbers of a frame
  std::int64_t outputs() const;   ///< values, or classes, of an answer
  bool answers_each_frame() const;
  /// Names of the classes; empty if it gives values.
  const std::vector<std::string>& labels() const;

  /// For each sequence, in order, its answers: for each frame or one for all of it, values or
  /// probabilities of classes. Throws ErrorCode::kInvalidArgument, with the number of the sequence,
  /// for frames of another width, for numbers that make no whole frames, for numbers that are not
  /// finite, with their place, and for resets that are not one a frame or are given to a model that
  /// answers whole sequences.
  std::vector<Frames> run(std::span<const Frames> sequences);

  /// Why a sequence can't be given in parts; empty if it can.
  std::string refuse_parts() const;
  /// Answers to the next frames of one sequence, whose states are kept from call to call: those of
  /// all parts together are what `run` gives of the whole. Throws ErrorCode::kInvalidArgument for
  /// frames that `run` would refuse, which leaves the sequence where it stood, and if
  /// refuse_parts() says something.
  Frames run_part(const Frames& frames);
  /// The same from and to memory of the caller's: frames [time, features] behind each other,
  /// answers [time, outputs]. On the CPU a call takes no memory once a part as long has been given,
  /// and a step too small for several threads stays on the calling one: for a loop that answers one
  /// frame at a time. Throws ErrorCode::kInvalidArgument for sizes that don't fit, and as the
  /// other.
  void run_part(std::span<const float> frames, std::span<float> answers);
  /// The next part begins a new sequence.
  void begin_sequence();
  /// Writes where the sequence stands to a file, for this model on any device to go on from. Throws
  /// ErrorCode::kIo if the disk refuses, and as run_part.
  void save_state(const std::string& path);
  /// The next part goes on from there. Throws ErrorCode::kNotFound if there is no file, kFormat for
  /// one that is damaged or of another model, and as run_part; then all stays as it was.
  void load_state(const std::string& path);
  /// Where the sequence stands, as the bytes of that file: so one model takes turns with many.
  /// Throws as run_part.
  std::string state();
  /// The next part goes on from there. Throws as load_state, the bytes being what it calls a file.
  void set_state(std::string_view bytes);

  ModelInfo info() const;
  /// What the model keeps between calls; clear_plan_cache() frees it.
  PlanCacheUse plan_cache() const;
  void clear_plan_cache();
  /// Records all calls from here on (sluice/profile.h; its steps are batches of each call, by
  /// default all). Throws ErrorCode::kInvalidArgument if a profile has begun already, kIo for a
  /// trace that can't be written.
  void begin_profile(const ProfileRequest& request);
  /// Ends that: writes the trace and prints the breakdown. Without it there is neither.
  void end_profile();

 private:
  struct State;
  explicit FeatureModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// How files are run.
struct RunFileOptions {
  std::int64_t part = 0;  ///< frames at a time, in parts that carry the state; 0: all
  StateFiles states{};    ///< of the input, which then is one sequence, or more of it
  /// File with the resets of the frames (Frames::resets): arrays of bools or of 0 and 1, [time] or
  /// [sequences, time]; of several arrays those of the same name. Empty: none.
  std::string resets{};
};

/// Runs a model on sequences of float32 or float64 in files of NumPy, and writes what it answers in
/// float32. `input` is a .npy file [time, features] or [sequences, time, features], a .npz file or
/// a folder of .npy files. `output` is a .npy file with the same axes before the outputs; of
/// several arrays, a folder with a .npy file for each. Answers to whole sequences are one .npy file
/// [sequences, outputs] in any case. Throws ErrorCode::kFormat for numbers that are not finite,
/// with their place, and for resets that don't fit; and as FeatureModel.
void run_file(FeatureModel& model, const std::string& input, const std::string& output,
              const RunFileOptions& options = {});

}  // namespace sluice
