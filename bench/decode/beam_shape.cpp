#include "bench/decode/beam_shape.h"

#include <array>

#include "base/check.h"
#include "base/suggest.h"
#include "bench/model_type.h"
#include "bench/shape_lines.h"
#include "data/tokenizer.h"

namespace sluice::bench::decode {
namespace {

constexpr std::array<std::string_view, 11> kKeys{"cell",   "vocabulary", "embedding", "hidden",
                                                 "layers", "inputs",     "beam",      "steps",
                                                 "dtype",  "seed",       "device"};

void set_key(BeamShape& shape, std::string_view key, std::string_view value) {
  if (key == "cell") {
    shape.cell = value;
  } else if (key == "dtype") {
    shape.dtype = parse_model_type(value);
  } else if (key == "device") {
    shape.device = value;
  } else if (key == "seed") {
    shape.seed = static_cast<std::uint64_t>(parse_number(value, 0));
  } else if (key == "vocabulary") {
    shape.vocabulary = parse_number(value, data::kFirstPieceId + 1);
  } else if (key == "steps") {
    shape.steps = parse_number(value, 2);
  } else {
    std::int64_t* const number = key == "embedding" ? &shape.embedding
                                 : key == "hidden"  ? &shape.hidden
                                 : key == "layers"  ? &shape.layers
                                 : key == "inputs"  ? &shape.inputs
                                 : key == "beam"    ? &shape.beam
                                                    : nullptr;
    SLUICE_CHECK(number != nullptr, "there is no such key{}", base::did_you_mean(key, kKeys));
    *number = parse_number(value, 1);
  }
}

}  // namespace

models::LanguageModelConfig BeamShape::config() const {
  models::LanguageModelConfig config;
  config.cell = cell;
  config.vocabulary = vocabulary;
  config.embedding = embedding;
  config.hidden = hidden;
  config.layers = layers;
  config.dropout = 0;
  return config;
}

std::vector<BeamShape> parse_shapes(std::string_view text, std::string_view origin) {
  return shapes_of<BeamShape>(text, origin, set_key,
                              [](const BeamShape& shape) { shape.config().validate(); });
}

std::vector<BeamShape> read_shapes(const std::filesystem::path& path, std::string_view dtype,
                                   std::string_view device) {
  return moved_to(
      parse_shapes(read_shape_text(path), path.string()), dtype, device,
      [](BeamShape& shape, std::string_view type) { shape.dtype = parse_model_type(type); });
}

}  // namespace sluice::bench::decode
