#include "bench/shape_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>

#include "base/suggest.h"

namespace sluice::bench {

namespace recurrent = kernels::recurrent;

namespace {

constexpr std::array<std::string_view, 13> kKeys{
    "cell",       "time",  "batch",   "input", "hidden", "layers", "directions",
    "projection", "dtype", "lengths", "seed",  "device", "pass"};

std::int64_t parse_number(std::string_view text, std::int64_t least) {
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  SLUICE_CHECK(status == std::errc() && end == text.data() + text.size() && number >= least,
               "'{}' is not an integer of at least {}", text, least);
  return number;
}

bool parse_lengths(std::string_view text) {
  SLUICE_CHECK(text == "full" || text == "uniform", "'{}' is neither full nor uniform", text);
  return text == "uniform";
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
  } else if (key == "device") {
    shape.device = value;
  } else if (key == "seed") {
    shape.seed = static_cast<std::uint64_t>(parse_number(value, 0));
  } else if (key == "projection") {
    shape.projection = parse_number(value, 0);
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

BenchShape parse_line(const std::string& line, const std::string& place) {
  std::istringstream words(line);
  BenchShape shape;
  words >> shape.name;
  SLUICE_CHECK(shape.name.find('=') == std::string::npos,
               "{}: the line must start with a name, not with '{}'", place, shape.name);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    SLUICE_CHECK(equals != std::string::npos, "{}: '{}' is not of the form key=value", place, word);
    const std::string key = word.substr(0, equals);
    try {
      set_key(shape, key, std::string_view(word).substr(equals + 1));
    } catch (const Error& error) {
      base::fail(error.code(), "{}: {}: {}", place, key, error.what());
    }
  }
  try {
    shape.descriptor(true).validate();
  } catch (const Error& error) {
    base::fail(error.code(), "{}: {}", place, error.what());
  }
  return shape;
}

}  // namespace

std::string_view name_of(Pass pass) {
  return pass == Pass::kForward ? "forward" : "forward+backward";
}

void BenchShape::set_dtype(std::string_view type) {
  tf32 = type == "tf32";
  dtype = tf32 ? base::DType::kFloat32 : base::parse_dtype(type);
}

recurrent::Descriptor BenchShape::descriptor(bool training) const {
  recurrent::Descriptor d;
  d.cell = cell;
  d.layers = layers;
  d.directions = directions;
  d.input = input;
  d.hidden = hidden;
  d.projection = projection;
  d.time = time;
  d.rows = batch;
  d.dtype = dtype;
  d.training = training;
  return d;
}

double BenchShape::forward_flops() const {
  const recurrent::Descriptor d = descriptor(false);
  const double steps = 2.0 * static_cast<double>(time) * static_cast<double>(batch);
  double flops = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto gates = static_cast<double>(d.gates() * hidden);
    const auto width = static_cast<double>(d.input_of(layer) + d.output());
    const auto projected = static_cast<double>(projection) * static_cast<double>(hidden);
    flops += static_cast<double>(directions) * steps * (gates * width + projected);
  }
  return flops;
}

std::vector<BenchShape> parse_shapes(std::string_view text, std::string_view origin) {
  std::vector<BenchShape> shapes;
  std::istringstream lines{std::string(text)};
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    shapes.push_back(parse_line(line, fmt::format("{}:{}", origin, number)));
  }
  SLUICE_CHECK(!shapes.empty(), "{} holds no shape; write lines `name key=value …`", origin);
  return shapes;
}

std::vector<BenchShape> read_shapes(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream) base::fail(ErrorCode::kNotFound, "cannot read the shape file {}", path.string());
  return parse_shapes(text.str(), path.string());
}

std::vector<BenchShape> read_shapes(const std::filesystem::path& path, std::string_view dtype,
                                    std::string_view device) {
  std::vector<BenchShape> shapes;
  for (BenchShape shape : read_shapes(path)) {
    if (!dtype.empty()) shape.set_dtype(dtype);
    if (!device.empty()) shape.device = device;
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace sluice::bench
