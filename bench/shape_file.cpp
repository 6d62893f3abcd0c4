#include "bench/shape_file.h"

#include <array>
#include <charconv>

#include "base/suggest.h"
#include "bench/shape_lines.h"

namespace sluice::bench {

namespace recurrent = kernels::recurrent;

namespace {

constexpr std::array<std::string_view, 19> kKeys{
    "cell",      "time",       "batch",   "input",       "hidden",
    "layers",    "directions", "dtype",   "projection",  "lengths",
    "seed",      "device",     "pass",    "reset",       "recurrent_dropout",
    "peepholes", "layer_norm", "zoneout", "hard_sigmoid"};

bool parse_lengths(std::string_view text) {
  SLUICE_CHECK(text == "full" || text == "uniform", "'{}' is neither full nor uniform", text);
  return text == "uniform";
}

bool parse_switch(std::string_view text) {
  SLUICE_CHECK(text == "on" || text == "off", "'{}' is neither on nor off", text);
  return text == "on";
}

/// From 0 on, below 1.
double parse_rate(std::string_view text) {
  double rate = -1;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, rate);
  SLUICE_CHECK(error == std::errc() && rest == end && rate >= 0 && rate < 1,
               "'{}' is no number from 0 to below 1", text);
  return rate;
}

/// One number for all layers or one a layer.
std::vector<std::int64_t> parse_projections(std::string_view text) {
  if (text == "0") return {};
  std::vector<std::int64_t> projections;
  for (std::size_t end = 0; end != std::string_view::npos; text.remove_prefix(end + 1)) {
    end = text.find(',');
    projections.push_back(parse_number(text.substr(0, end), 1));
    if (end == std::string_view::npos) break;
  }
  return projections;
}

void set_key(BenchShape& shape, std::string_view key, std::string_view value) {
  if (key == "cell") {
    shape.cell = recurrent::parse_cell(value);
  } else if (key == "dtype") {
    shape.set_dtype(value);
  } else if (key == "lengths") {
    shape.uniform_lengths = parse_lengths(value);
  } else if (key == "pass") {
    SLUICE_CHECK(value == "forward" || value == "all", "'{}' is neither forward nor all", value);
    shape.inference_only = value == "forward";
  } else if (key == "peepholes") {
    shape.peepholes = parse_switch(value);
  } else if (key == "layer_norm") {
    shape.layer_norm = parse_switch(value);
  } else if (key == "hard_sigmoid") {
    shape.hard_sigmoid = parse_switch(value);
  } else if (key == "reset") {
    shape.reset = parse_rate(value);
  } else if (key == "zoneout") {
    shape.zoneout = parse_rate(value);
  } else if (key == "recurrent_dropout") {
    shape.recurrent_dropout = parse_rate(value);
  } else if (key == "device") {
    shape.device = value;
  } else if (key == "seed") {
    shape.seed = static_cast<std::uint64_t>(parse_number(value, 0));
  } else if (key == "projection") {
    shape.projections = parse_projections(value);
  } else {
    std::int64_t* const number = key == "time"         ? &shape.time
                                 : key == "batch"      ? &shape.batch
                                 : key == "input"      ? &shape.input
                                 : key == "hidden"     ? &shape.hidden
                                 : key == "layers"     ? &shape.layers
                                 : key == "directions" ? &shape.directions
                                                       : nullptr;
    SLUICE_CHECK(number != nullptr, "there is no such key{}", base::did_you_mean(key, kKeys));
    *number = parse_number(value, 1);
  }
}

}  // namespace

std::string_view name_of(Pass pass) {
  if (pass == Pass::kStep) return "step";
  return pass == Pass::kForward ? "forward" : "forward+backward";
}

void BenchShape::set_dtype(std::string_view type) {
  tf32 = type == "tf32";
  int8 = type == "int8";
  dtype = tf32 || int8 ? base::DType::kFloat32 : base::parse_dtype(type);
}

recurrent::Descriptor BenchShape::descriptor(bool training) const {
  recurrent::Descriptor d;
  d.cell = cell;
  d.layers = layers;
  d.directions = directions;
  d.input = input;
  d.hidden = hidden;
  d.projections = projections;
  d.time = time;
  d.rows = batch;
  d.dtype = dtype;
  d.tf32 = tf32;
  d.int8 = int8 && !training;
  d.training = training;
  d.resets = reset > 0;
  d.peepholes = peepholes;
  d.layer_norm = layer_norm;
  d.zoneout_h = zoneout;
  d.zoneout_c = cell == recurrent::CellType::kLstm ? zoneout : 0;
  d.recurrent_dropout = recurrent_dropout;
  d.hard_sigmoid = hard_sigmoid;
  return d;
}

double BenchShape::forward_flops() const {
  const recurrent::Descriptor d = descriptor(false);
  const double steps = 2.0 * static_cast<double>(time) * static_cast<double>(batch);
  double flops = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto gates = static_cast<double>(d.gates() * hidden);
    const auto width = static_cast<double>(d.input_of(layer) + d.output_of(layer));
    const auto projected = static_cast<double>(d.projects() ? d.output_of(layer) * hidden : 0);
    flops += static_cast<double>(directions) * steps * (gates * width + projected);
  }
  return flops;
}

std::vector<BenchShape> parse_shapes(std::string_view text, std::string_view origin) {
  return shapes_of<BenchShape>(text, origin, set_key,
                               [](const BenchShape& shape) { shape.descriptor(true).validate(); });
}

std::vector<BenchShape> read_shapes(const std::filesystem::path& path) {
  return parse_shapes(read_shape_text(path), path.string());
}

std::vector<BenchShape> read_shapes(const std::filesystem::path& path, std::string_view dtype,
                                    std::string_view device) {
  return moved_to(read_shapes(path), dtype, device,
                  [](BenchShape& shape, std::string_view type) { shape.set_dtype(type); });
}

}  // namespace sluice::bench
