#include <algorithm>
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
constexpr std::int64_t kMost = 1 << 24;  // inputs, samples, classes

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
  std::uint64_t seed = 0;
  std::int64_t inputs = 0, samples = 0;
  std::int32_t steps = 0;
};

/// Refuses a state of another model; both are identity_of().
void require_same_model(const std::string& file, const std::string& saved, const std::string& own) {
  if (saved == own) return;
  const auto kind_of = [](const std::string& identity) {
    return identity.substr(0, identity.find(' '));
  };
  const std::string saved_kind = kind_of(saved), own_kind = kind_of(own);
  if (saved_kind != own_kind) {
    base::fail(ErrorCode::kFormat,
               "'{}' is a state of another kind of model, {}, and this one is of kind {}: give one "
               "that was saved with this model",
               file, saved_kind, own_kind);
  }
  base::fail(ErrorCode::kFormat,
             "'{}' is a state of another {}, of other weights ('{}', and this one is '{}'): go on "
             "with the model that it was saved with",
             file, own_kind, saved, own);
}

/// The file's description, given to `read` once it is known to be of this model.
template <typename Read>
auto parse(const io::Container& file, const std::string& model_identity, Read&& read) {
  try {
    const json text = json::parse(file.text);
    const std::string model = text.at("model");
    require_same_model(file.origin, model, model_identity);
    return read(text);
  } catch (const json::exception& error) {
    base::fail(ErrorCode::kFormat, "'{}': its description is damaged: {}", file.origin,
               error.what());
  }
}

void add_model(io::Container& file, const io::TensorTable& state) {
  for (const auto& [name, tensor] : state) {
    file.tensors.add(std::string(kModelPrefix) + name, tensor);
  }
}

io::TensorTable take_model(const io::Container& file) {
  io::TensorTable state;
  for (const auto& [name, tensor] : file.tensors) {
    if (name.starts_with(kModelPrefix)) state.add(name.substr(kModelPrefix.size()), tensor);
  }
  return state;
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

void check_finite(const std::string& origin, std::string_view name, const HostTensor& tensor) {
  const auto check = [&]<typename T>(std::span<const T> values) {
    const auto bad = std::ranges::find_if(values, [](T value) { return !std::isfinite(value); });
    if (bad == values.end()) return;
    base::fail(ErrorCode::kFormat, "'{}': number {} of '{}' is {}, which is not finite", origin,
               bad - values.begin() + 1, name, *bad);
  };
  if (tensor.dtype == base::DType::kFloat32) check(tensor.values<float>());
  if (tensor.dtype == base::DType::kFloat64) check(tensor.values<double>());
}

io::Container to_container(const StreamState& state, const std::string& model_identity) {
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
  add_model(file, state.model);
  return file;
}

StreamState stream_state(const io::Container& file, const std::string& model_identity) {
  const Text text = parse(file, model_identity, [](const json& t) {
    return Text{t.at("seed"), t.at("inputs"), t.at("samples"), t.at("steps")};
  });
  if (text.inputs < 1 || text.inputs > kMost || text.samples < 1 || text.samples > kMost ||
      text.steps < 0) {
    base::fail(ErrorCode::kFormat,
               "'{}' is damaged: it states {} samples of {} inputs after {} tokens", file.origin,
               text.samples, text.inputs, text.steps);
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
  state.model = take_model(file);
  return state;
}

io::Container to_container(const SequenceState& state, const std::string& model_identity) {
  io::Container file;
  file.text = json{{"model", model_identity}, {"answers", state.answer.size()}}.dump();
  add(file, "answer", state.answer);
  add_model(file, state.model);
  return file;
}

SequenceState sequence_state(const io::Container& file, const std::string& model_identity) {
  const auto answers = parse(file, model_identity,
                             [](const json& t) { return t.at("answers").get<std::int64_t>(); });
  if (answers < 0 || answers > kMost) {
    base::fail(ErrorCode::kFormat, "'{}' is damaged: it states an answer of {} numbers",
               file.origin, answers);
  }
  SequenceState state;
  for (const auto& [name, tensor] : file.tensors) check_finite(file.origin, name, tensor);
  state.answer = take<float>(file, "answer", answers);
  state.model = take_model(file);
  return state;
}

}  // namespace

void save_stream(const std::filesystem::path& path, const StreamState& state,
                 const std::string& model_identity) {
  io::write_stream(path, to_container(state, model_identity));
}

std::string stream_bytes(const StreamState& state, const std::string& model_identity) {
  return io::stream_bytes(to_container(state, model_identity));
}

StreamState load_stream(const std::filesystem::path& path, const std::string& model_identity) {
  return stream_state(io::read_stream(path), model_identity);
}

StreamState stream_of_bytes(std::string_view bytes, const std::string& model_identity) {
  return stream_state(io::stream_of_bytes(bytes), model_identity);
}

void save_sequence(const std::filesystem::path& path, const SequenceState& state,
                   const std::string& model_identity) {
  io::write_stream(path, to_container(state, model_identity));
}

std::string sequence_bytes(const SequenceState& state, const std::string& model_identity) {
  return io::stream_bytes(to_container(state, model_identity));
}

SequenceState load_sequence(const std::filesystem::path& path, const std::string& model_identity) {
  return sequence_state(io::read_stream(path), model_identity);
}

SequenceState sequence_of_bytes(std::string_view bytes, const std::string& model_identity) {
  return sequence_state(io::stream_of_bytes(bytes), model_identity);
}

}  // namespace sluice::decoding
