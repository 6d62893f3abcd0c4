#include "bench/train/train_shape.h"

#include <array>
#include <charconv>

#include "base/check.h"
#include "base/suggest.h"
#include "bench/model_type.h"
#include "bench/shape_lines.h"
#include "data/tokenizer.h"

namespace sluice::bench::train {
namespace {

constexpr std::array<std::string_view, 14> kKeys{
    "cell",    "vocabulary", "embedding",   "hidden",      "layers", "directions", "attention",
    "dropout", "batch",      "source_time", "target_time", "dtype",  "seed",       "device"};

double parse_rate(std::string_view text) {
  double rate = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), rate);
  SLUICE_CHECK(status == std::errc() && end == text.data() + text.size(), "'{}' is not a number",
               text);
  return rate;
}

void set_key(TrainShape& shape, std::string_view key, std::string_view value) {
  if (key == "cell") {
    shape.cell = value;
  } else if (key == "attention") {
    shape.attention = value;
  } else if (key == "dropout") {
    shape.dropout = parse_rate(value);
  } else if (key == "dtype") {
    shape.dtype = parse_model_type(value);
  } else if (key == "device") {
    shape.device = value;
  } else if (key == "seed") {
    shape.seed = static_cast<std::uint64_t>(parse_number(value, 0));
  } else if (key == "vocabulary") {
    shape.vocabulary = parse_number(value, data::kFirstPieceId + 1);
  } else {
    std::int64_t* const number = key == "embedding"     ? &shape.embedding
                                 : key == "hidden"      ? &shape.hidden
                                 : key == "layers"      ? &shape.layers
                                 : key == "directions"  ? &shape.directions
                                 : key == "batch"       ? &shape.batch
                                 : key == "source_time" ? &shape.source_time
                                 : key == "target_time" ? &shape.target_time
                                                        : nullptr;
    SLUICE_CHECK(number != nullptr, "there is no such key{}", base::did_you_mean(key, kKeys));
    *number = parse_number(value, 1);
  }
}

void check(const TrainShape& shape) {
  SLUICE_CHECK(shape.directions <= 2, "directions is {}; it must be 1 or 2", shape.directions);
  shape.config().validate();
}

}  // namespace

models::Seq2SeqConfig TrainShape::config() const {
  models::Seq2SeqConfig config;
  config.cell = cell;
  config.source_vocabulary = vocabulary;
  config.target_vocabulary = vocabulary;
  config.embedding = embedding;
  config.hidden = hidden;
  config.encoder_layers = layers;
  config.decoder_layers = layers;
  config.bidirectional = directions == 2;
  config.attention = attention;
  config.dropout = dropout;
  return config;
}

std::vector<TrainShape> parse_shapes(std::string_view text, std::string_view origin) {
  return shapes_of<TrainShape>(text, origin, set_key, check);
}

std::vector<TrainShape> read_shapes(const std::filesystem::path& path, std::string_view dtype,
                                    std::string_view device) {
  return moved_to(
      parse_shapes(read_shape_text(path), path.string()), dtype, device,
      [](TrainShape& shape, std::string_view type) { shape.dtype = parse_model_type(type); });
}

}  // namespace sluice::bench::train
