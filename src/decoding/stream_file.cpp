#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "decoding/stream_state.h"
#include "io/checkpoint.h"
#include "kernels/sampling/state.h"

namespace sluice::decoding {
namespace {

using base::Shape;
using io::HostTensor;
using nlohmann::json;

constexpr std::string_view kModelPrefix = "model.";

template <typename T>
void add(io::Container& file, const char* name, const std::vector<T>& values) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  file.tensors.add(name, HostTensor::copy_of<T>(values, shape));
}

template <typename T>
std::vector<T> take(const io::Container& file, const char* name, std::int64_t count) {
  const HostTensor& tensor = io::require_tensor(file, name, Shape{count}, base::dtype_of<T>());
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

struct Text {
  std::string model;
  std::uint64_t seed = 0;
  std::int64_t inputs = 0, samples = 0;
  std::int32_t steps = 0;
};

Text parse(const io::Container& file) {
  try {
    const json text = json::parse(file.text);
    return {text.at("model"), text.at("seed"), text.at("inputs"), text.at("samples"),
            text.at("steps")};
  } catch (const json::exception& error) {
    base::fail(ErrorCode::kFormat, "'{}': its description is damaged: {}", file.origin,
               error.what());
  }
}

void check_rows(const io::Container& file, const StreamState& state) {
  const auto refuse = [&](std::size_t row, const char* what) {
    base::fail(ErrorCode::kFormat, "'{}': {} of row {} is out of range", file.origin, what, row);
  };
  for (std::size_t row = 0; row < state.tokens.size(); ++row) {
    using namespace kernels::sampling;
    if (state.tokens[row] < 0) refuse(row, "the token");
    if (state.status[row] < kEnded || state.status[row] > kImpossible) refuse(row, "the status");
    if (std::isnan(state.scores[row])) refuse(row, "the score");
  }
}

}  // namespace

void save_stream(const std::filesystem::path& path, const StreamState& state,
                 const std::string& model_identity) {
  io::Container file;
  file.text = json{{"model", model_identity},
                   {"seed", state.seed},
                   {"inputs", state.input_ids.size()},
                   {"samples", state.samples},
                   {"steps", state.steps}}
                  .dump();
  add(file, "input_ids", state.input_ids);
  add(file, "tokens", state.tokens);
  add(file, "status", state.status);
  add(file, "scores", state.scores);
  for (const auto& [name, tensor] : state.model) {
    file.tensors.add(std::string(kModelPrefix) + name, tensor);
  }
  io::write_stream(path, file);
}

StreamState load_stream(const std::filesystem::path& path, const std::string& model_identity) {
  const io::Container file = io::read_stream(path);
  const Text text = parse(file);
  if (text.model != model_identity) {
    base::fail(ErrorCode::kFormat,
               "'{}' was saved from the model '{}', and this one is '{}': go on with the one it "
               "came from",
               file.origin, text.model, model_identity);
  }
  constexpr std::int64_t kMost = 1 << 24;
  if (text.inputs < 1 || text.inputs > kMost || text.samples < 1 || text.samples > kMost ||
      text.steps < 0) {
    base::fail(ErrorCode::kFormat, "'{}' can't be: {} samples of {} inputs after {} tokens",
               file.origin, text.samples, text.inputs, text.steps);
  }
  StreamState state;
  state.seed = text.seed;
  state.samples = text.samples;
  state.steps = text.steps;
  const std::int64_t rows = text.inputs * text.samples;
  state.input_ids = take<std::int32_t>(file, "input_ids", text.inputs);
  state.tokens = take<std::int32_t>(file, "tokens", rows);
  state.status = take<std::int32_t>(file, "status", rows);
  state.scores = take<double>(file, "scores", rows);
  check_rows(file, state);
  for (const auto& [name, tensor] : file.tensors) {
    if (name.starts_with(kModelPrefix)) state.model.add(name.substr(kModelPrefix.size()), tensor);
  }
  return state;
}

}  // namespace sluice::decoding
