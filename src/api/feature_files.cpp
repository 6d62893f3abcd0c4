#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "base/counted.h"
#include "data/frames.h"
#include "io/directory_swap.h"
#include "io/name_of_input.h"
#include "io/output_file.h"
#include "sluice/feature_model.h"
#include "sluice/text.h"
#include "training/feature_resets.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

void write_npy(const fs::path& path, std::span<const std::int64_t> shape,
               std::span<const float> values) {
  io::OutputFile file(path);
  const std::string header = io::npy_header(shape);
  file.write(std::as_bytes(std::span(header)));
  file.write(std::as_bytes(values));
  file.commit();
}

/// One array of the input.
struct Array {
  std::string where;  ///< for errors: "'dev.npz' array 'utt3'"
  std::string stem;   ///< of its name, for a file of its own
  std::vector<std::int64_t> shape;
  std::vector<Frames> sequences;
  std::vector<std::string> names, keys;  ///< of the sequences, as data::FrameSequences has them
};

std::vector<Array> read_arrays(const std::string& input) {
  std::vector<Array> arrays;
  data::for_each_array(input, [&](const std::string& where, const std::string& name,
                                  const io::NpyArray& array) {
    data::FrameSequences sequences;
    data::add_sequences(where, array, sequences, "features", name);
    Array& read =
        arrays.emplace_back(Array{where, name, array.shape, {}, sequences.names, sequences.keys});
    for (std::int64_t i = 0; i < sequences.size(); ++i) {
      const auto frames = sequences.frames(i);
      read.sequences.push_back({sequences.width, {frames.begin(), frames.end()}});
    }
  });
  return arrays;
}

/// Those of `file`, for the sequences of the input.
void read_resets(const std::string& file, const std::string& input, std::vector<Array>& arrays) {
  std::vector<std::string> names;
  for (const Array& array : arrays) names.push_back(array.stem);
  training::ResetReader reader(file, input, names);
  for (Array& array : arrays) {
    for (std::size_t i = 0; i < array.sequences.size(); ++i) {
      Frames& sequence = array.sequences[i];
      const auto resets = reader.next(array.names[i], array.keys[i], sequence.time());
      sequence.resets.assign(resets.begin(), resets.end());
    }
  }
  reader.finish();
}

void require_width(const FeatureModel& model, const std::vector<Array>& arrays) {
  for (const Array& array : arrays) {
    for (const Frames& sequence : array.sequences) {
      if (sequence.values.empty() || sequence.width == model.features()) continue;
      base::fail(ErrorCode::kInvalidArgument,
                 "{}: its frames have {}, but the model was trained on frames of {}", array.where,
                 base::counted(sequence.width, "feature"), model.features());
    }
  }
}

/// From where the model stands.
Frames run_in_parts(FeatureModel& model, const Frames& sequence, std::int64_t part) {
  Frames answers{model.outputs(), {}};
  const std::int64_t time = sequence.time(), longest = std::max<std::int64_t>(part, 1);
  for (std::int64_t first = 0; first < time; first += longest) {
    const std::int64_t end = std::min(first + longest, time);
    const auto values = sequence.values.begin();
    Frames frames{sequence.width, {values + first * sequence.width, values + end * sequence.width}};
    if (!sequence.resets.empty()) {
      const auto resets = sequence.resets.begin();
      frames.resets.assign(resets + first, resets + end);
    }
    const Frames more = model.run_part(frames);
    answers.values.insert(answers.values.end(), more.values.begin(), more.values.end());
  }
  return answers;
}

/// All answers of an array, one behind the other.
std::vector<float> run_array(FeatureModel& model, const Array& array, std::int64_t part) {
  std::vector<Frames> answers;
  if (part == 0) {
    answers = model.run(array.sequences);
  } else {
    for (const Frames& sequence : array.sequences) {
      model.begin_sequence();
      answers.push_back(run_in_parts(model, sequence, part));
    }
  }
  std::vector<float> values;
  for (const Frames& one : answers) {
    values.insert(values.end(), one.values.begin(), one.values.end());
  }
  return values;
}

/// [.., features] -> [.., outputs]; frames of one number may come without their axis.
std::vector<std::int64_t> shape_of_answers(const Array& array, std::int64_t outputs) {
  std::vector<std::int64_t> shape = array.shape;
  if (shape.size() > 1) shape.pop_back();
  shape.push_back(outputs);
  return shape;
}

/// The state is left once the answers are written: they would be lost with a part that can't be
/// given again.
void run_more(FeatureModel& model, const std::string& input, const std::vector<Array>& arrays,
              const std::string& output, std::int64_t part, const StateFiles& states) {
  SLUICE_CHECK(arrays.size() == 1 && arrays.front().sequences.size() == 1,
               "a state is of one sequence, but {} holds {}; give one at a time",
               io::name_of_input(input),
               arrays.size() == 1 ? fmt::format("{} of them", arrays.front().sequences.size())
                                  : fmt::format("{} arrays", arrays.size()));
  const Frames& sequence = arrays.front().sequences.front();
  if (states.from.empty()) {
    model.begin_sequence();
  } else {
    model.load_state(states.from);
  }
  const Frames answers = run_in_parts(model, sequence, part == 0 ? sequence.time() : part);
  write_npy(output, shape_of_answers(arrays.front(), model.outputs()), answers.values);
  if (!states.to.empty()) model.save_state(states.to);
}

bool is_one_file(const std::string& input) {
  return fs::path(input).extension() != ".npz" && !fs::is_directory(input);
}

bool is_npy(const std::string& path) { return fs::path(path).extension() == ".npy"; }

/// A file for the frames of a file. Of several arrays, which an archive or a folder may hold, the
/// answers are a folder, unless there is but one and a file is named.
bool wants_folder(const std::string& input, const std::vector<Array>& arrays,
                  const std::string& output) {
  if (is_one_file(input)) return false;
  if (!is_npy(output)) return true;
  SLUICE_CHECK(arrays.size() == 1,
               "'{}' holds {} arrays, whose answers are a folder with a .npy file for each: name a "
               "folder, not '{}'",
               input, arrays.size(), output);
  return false;
}

}  // namespace

void run_file(FeatureModel& model, const std::string& input, const std::string& output,
              const RunFileOptions& options) {
  const auto& [part, states, resets] = options;
  SLUICE_CHECK(part >= 0, "parts have {} frames; they must have at least 1", part);
  const std::string reason = model.refuse_parts();
  SLUICE_CHECK((part == 0 && !states.any()) || reason.empty(),
               "sequences can't go through in parts: {}", reason);
  // Before the work: answers that can't be written should not cost an hour.
  const bool one_array = !model.answers_each_frame() || states.any();
  if (one_array || is_one_file(input) || is_npy(output)) require_writable(output);
  std::vector<Array> arrays = read_arrays(input);
  require_width(model, arrays);
  if (!resets.empty()) read_resets(resets, input, arrays);
  const bool to_folder = !one_array && wants_folder(input, arrays, output);
  if (to_folder) io::make_directory(output);
  if (!model.answers_each_frame()) {
    std::vector<float> values;
    for (const Array& array : arrays) {
      const std::vector<float> more = run_array(model, array, part);
      values.insert(values.end(), more.begin(), more.end());
    }
    const auto sequences = static_cast<std::int64_t>(values.size()) / model.outputs();
    return write_npy(output, std::vector{sequences, model.outputs()}, values);
  }
  if (states.any()) return run_more(model, input, arrays, output, part, states);
  for (const Array& array : arrays) {
    const fs::path path = to_folder ? fs::path(output) / (array.stem + ".npy") : fs::path(output);
    write_npy(path, shape_of_answers(array, model.outputs()), run_array(model, array, part));
  }
}

}  // namespace sluice
