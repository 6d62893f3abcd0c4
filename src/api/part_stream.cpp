#include "api/part_stream.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/counted.h"
#include "base/dtype.h"
#include "io/checkpoint.h"
#include "runtime/span.h"

namespace sluice::api {
namespace {

using runtime::Shape;
using runtime::Tensor;

// Longer parts go through in several pieces.
constexpr std::int64_t kLongestPiece = 4096;

}  // namespace

void PartStream::require_parts() const {
  SLUICE_CHECK(refusal_.empty(), "{} can't be given in parts: {}", whole_, refusal_);
}

models::SequenceStream& PartStream::stream_of(std::int64_t time) {
  time = std::clamp<std::int64_t>(time, 1, kLongestPiece);
  if (stream_ && stream_->capacity() >= time) return *stream_;
  // Powers of two, lest each longer part ask for a new stream.
  models::SequenceStream longer(context_, model_, stack_,
                                static_cast<std::int64_t>(std::bit_ceil(std::uint64_t(time))),
                                weights_);
  if (stream_) {
    const auto from = stream_->state(), to = longer.state();
    for (std::size_t i = 0; i < from.size(); ++i) context_.copy(to[i].value, from[i].value);
    context_.synchronize();  // the memory goes
  }
  return stream_.emplace(std::move(longer));
}

template <typename T>
void PartStream::run_pieces(std::span<const T> values, std::int64_t width,
                            const std::function<void(const Tensor&)>& take) {
  require_parts();
  const std::int64_t numbers = std::max<std::int64_t>(width, 1);
  const std::int64_t time = std::ssize(values) / numbers;
  if (time == 0) return;
  models::SequenceStream& stream = stream_of(time);
  const std::int64_t longest = std::min(time, stream.capacity());
  const auto bytes = static_cast<std::size_t>(longest * numbers) * sizeof(T);
  if (piece_.bytes() < bytes) {
    context_.synchronize();  // the memory goes
    piece_ = runtime::Buffer(context_.device(), bytes);
  }
  for (std::int64_t first = 0; first < time; first += longest) {
    const std::int64_t count = std::min(longest, time - first);
    const Shape shape = width == 0 ? Shape{count, 1} : Shape{count, 1, width};
    const Tensor piece = piece_.tensor(base::dtype_of<T>(), shape);
    context_.upload<T>(piece, values.subspan(static_cast<std::size_t>(first * numbers),
                                             static_cast<std::size_t>(count * numbers)));
    runtime::run_step(context_, "batch", first / longest + 1,
                      [&] { take(stream.run(context_, piece)); });
  }
}

void PartStream::run(std::span<const std::int32_t> tokens,
                     const std::function<void(const Tensor&)>& take) {
  run_pieces(tokens, 0, take);
}

void PartStream::run(std::span<const float> frames, std::int64_t width,
                     const std::function<void(const Tensor&)>& take) {
  run_pieces(frames, width, take);
}

void PartStream::begin() {
  if (stream_) stream_->begin(context_);
}

const std::string& PartStream::identity() {
  if (identity_.empty()) identity_ = decoding::identity_of(context_, model_);
  return identity_;
}

decoding::SequenceState PartStream::standing(const std::vector<float>& answer) {
  require_parts();
  return {decoding::download_state(context_, stream_of(1).state()), answer};
}

std::vector<float> PartStream::go_on(decoding::SequenceState state, const std::string& origin,
                                     std::size_t answers) {
  if (!state.answer.empty() && state.answer.size() != answers) {
    base::fail(ErrorCode::kFormat, "'{}' holds {} of an answer, but states of this model hold {}",
               origin, base::counted(state.answer.size(), "number"), answers);
  }
  try {
    decoding::upload_state(context_, stream_of(1).state(), state.model);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kFormat) throw;
    base::fail(error.code(), "'{}': {}", origin, error.what());
  }
  return std::move(state.answer);
}

void PartStream::save(const std::string& path, const std::vector<float>& answer) {
  decoding::save_sequence(path, standing(answer), identity());
}

std::vector<float> PartStream::load(const std::string& path, std::size_t answers) {
  require_parts();
  return go_on(decoding::load_sequence(path, identity()), path, answers);
}

std::string PartStream::bytes(const std::vector<float>& answer) {
  return decoding::sequence_bytes(standing(answer), identity());
}

std::vector<float> PartStream::set_bytes(std::string_view bytes, std::size_t answers) {
  require_parts();
  return go_on(decoding::sequence_of_bytes(bytes, identity()), io::Container{}.origin, answers);
}

}  // namespace sluice::api
