#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/seq2seq_config.h"

namespace sluice::bench::train {

/// One line of a shape file for training: a seq2seq model and the batches it is fed.
struct TrainShape {
  std::string name;
  std::string cell = "lstm";           ///< lstm or gru
  std::int64_t vocabulary = 32000;     ///< of each side; tokens 0 to 3 are the special ones
  std::int64_t embedding = 1024;       ///< width of source and target embeddings
  std::int64_t hidden = 1024;          ///< decoder units; encoder units of all directions together
  std::int64_t layers = 2;             ///< of the encoder and of the decoder
  std::int64_t directions = 1;         ///< of the encoder
  std::string attention = "additive";  ///< additive or multiplicative
  double dropout = 0.5;
  std::int64_t batch = 64;  ///< pairs
  std::int64_t source_time = 20;
  std::int64_t target_time = 20;  ///< with the end of sentence
  std::string dtype = "float32";  ///< float32, tf32, bfloat16 or float16
  std::uint64_t seed = 1;
  std::string device = "cpu";

  bool operator==(const TrainShape&) const = default;

  models::Seq2SeqConfig config() const;
  /// Source and target tokens of a batch, all of which count.
  std::int64_t tokens() const { return batch * (source_time + target_time); }
};

/// Reads a file of lines `name key=value …`, the keys those above; as bench::read_shapes.
std::vector<TrainShape> read_shapes(const std::filesystem::path& path, std::string_view dtype,
                                    std::string_view device);
/// The same, of a text that `origin` names in errors, each line in its own dtype and on its device.
std::vector<TrainShape> parse_shapes(std::string_view text, std::string_view origin);

}  // namespace sluice::bench::train
