#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/language_model_config.h"

namespace sluice::bench::decode {

/// One line of a shape file for beam search: a language model, and how it is searched.
struct BeamShape {
  std::string name;
  std::string cell = "lstm";     ///< lstm or gru
  std::int64_t vocabulary = 40;  ///< tokens 0 to 3 are the special ones
  std::int64_t embedding = 384;
  std::int64_t hidden = 384;
  std::int64_t layers = 3;
  std::int64_t inputs = 32;       ///< searched for at a time
  std::int64_t beam = 32;         ///< of each input, all of which are kept
  std::int64_t steps = 128;       ///< of the model: all outputs have a token less, and the end
  std::string dtype = "float32";  ///< float32, tf32, bfloat16 or float16
  std::uint64_t seed = 1;
  std::string device = "cpu";

  bool operator==(const BeamShape&) const = default;

  models::LanguageModelConfig config() const;
};

/// Reads a file of lines `name key=value …`, the keys those above; as bench::read_shapes.
std::vector<BeamShape> read_shapes(const std::filesystem::path& path, std::string_view dtype,
                                   std::string_view device);
/// The same, of a text that `origin` names in errors, each line in its own dtype and on its device.
std::vector<BeamShape> parse_shapes(std::string_view text, std::string_view origin);

}  // namespace sluice::bench::decode
