#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/decode/beam_shape.h"
#include "sluice/profile.h"

namespace sluice::bench::decode {

struct BeamBenchOptions {
  std::string shapes;         ///< shape file
  std::string device;         ///< instead of what the shape file says; empty: as there
  std::string dtype;          ///< the same: float32, tf32, bfloat16 or float16
  std::int64_t repeats = 15;  ///< timed searches of a shape
  bool check = false;         ///< whether to hold what is found against the CPU in float32
  std::string json;           ///< file for the results; empty: none
  ProfileRequest profile;     ///< of further searches, counted from 1
};

/// How far what was found is from what the CPU finds in float32.
struct Agreement {
  std::int64_t count = 0;  ///< hypotheses of all inputs
  std::int64_t same = 0;   ///< those that are the same at the same place
  std::int64_t found = 0;  ///< those that the CPU has at any place of that input
  std::int64_t best = 0;   ///< inputs whose best hypothesis is the same
  double score = 0;        ///< largest difference of an input's best score, as a part of it
};

struct BeamResult {
  BeamShape shape;  ///< its device by name
  std::string device_model;
  double milliseconds = 0;     ///< median
  double score = 0;            ///< mean over inputs of the best hypothesis's, log p
  std::size_t peak_bytes = 0;  ///< most device memory that model and search held
  std::int64_t parameters = 0;
  Agreement agreement;  ///< if asked for

  double tokens_per_second() const;  ///< of all beams
};

/// Times whole beam searches of every shape, as `sluice generate` runs them: prompts of bos and
/// another token for each input, as many steps as the shape says, the end allowed in the last
/// alone, and tracing back; results stay on the device. The model's weights are drawn from the
/// seed. Prints a table row to `out` as each is done, to `progress` what runs and how long the
/// first search took, and writes the JSON at the end. Throws Error.
std::vector<BeamResult> run_beam_bench(const BeamBenchOptions& options, std::ostream& out,
                                       std::ostream& progress);

/// The results as a JSON list of objects, in the keys of recurrent results with cell
/// "language_model".
std::string to_json(const std::vector<BeamResult>& results);

}  // namespace sluice::bench::decode
