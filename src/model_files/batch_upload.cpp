#include "model_files/batch_upload.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <type_traits>

#include "runtime/span.h"

namespace sluice::model_files {
namespace {

using models::Extent;
using runtime::DType;
using runtime::Shape;

// Ints between the starts of two tensors are a multiple of this: 64 bytes.
constexpr std::size_t kAlignment = 16;
// So much that it hardly ever grows: what is captured on it must then be captured anew.
constexpr std::size_t kLeastBytes = 1 << 20;

/// What a tensor on the device will be: a place in the staged words.
struct Place {
  std::size_t begin = 0;
  DType dtype = DType::kInt32;
  std::optional<Shape> shape;  ///< none: the tensor is absent
};

/// Steps and rows that a side of a batch is padded to.
struct Grid {
  std::int64_t time = 0;
  std::int64_t rows = 0;
};

template <typename Number>
std::int32_t word_of(Number value) {
  if constexpr (std::is_same_v<Number, float>) {
    return std::bit_cast<std::int32_t>(value);
  } else {
    return static_cast<std::int32_t>(value);
  }
}

/// Lines up what is to be copied.
class Staging {
 public:
  explicit Staging(std::vector<std::int32_t>& numbers) : numbers_(numbers) { numbers_.clear(); }

  /// values [rows], then zeros up to `wanted`; nothing if there are none.
  template <typename Number>
  Place add(const std::vector<Number>& values, std::int64_t wanted) {
    return add(values, 1, std::ssize(values), {wanted}, wanted);
  }
  /// values [time, rows] as [wanted time, wanted rows], floats [time, rows, width] with their
  /// width; what is added is zero, the id of padding. Nothing if there are none.
  template <typename Number>
  Place add(const std::vector<Number>& values, std::int64_t time, std::int64_t rows,
            const Grid& wanted) {
    const std::int64_t width = values.empty() ? 1 : std::ssize(values) / (time * rows);
    SLUICE_ASSERT(values.empty() || std::ssize(values) == time * rows * width);
    if constexpr (std::is_same_v<Number, float>) {
      return add(values, time, rows * width, {wanted.time, wanted.rows, width},
                 wanted.rows * width);
    } else {
      SLUICE_ASSERT(width == 1);
      return add(values, time, rows, {wanted.time, wanted.rows}, wanted.rows);
    }
  }
  Place add(double value) {
    const Place place{take(2), DType::kFloat64, Shape{1}};
    std::memcpy(numbers_.data() + place.begin, &value, sizeof value);
    return place;
  }

 private:
  // values [time, count] into rows of `stride`.
  template <typename Number>
  Place add(const std::vector<Number>& values, std::int64_t time, std::int64_t count,
            const Shape& wanted, std::int64_t stride) {
    if (values.empty()) return {};
    const Place place{take(static_cast<std::size_t>(wanted.element_count())),
                      std::is_same_v<Number, float> ? DType::kFloat32 : DType::kInt32, wanted};
    for (std::int64_t t = 0; t < time; ++t) {
      const auto row = values.begin() + t * count;
      std::transform(row, row + count,
                     numbers_.begin() + static_cast<std::ptrdiff_t>(place.begin) + t * stride,
                     word_of<Number>);
    }
    return place;
  }
  std::size_t take(std::size_t count) {
    const std::size_t begin = base::align_up(numbers_.size(), kAlignment);
    numbers_.resize(begin + count);
    return begin;
  }

  std::vector<std::int32_t>& numbers_;
};

}  // namespace

Extent extent_of(const data::Batch& batch) {
  return {batch.rows, batch.source_time, batch.target_time, !batch.resets.empty()};
}

models::Batch BatchUpload::upload(const Context& context, const data::Batch& batch) {
  return upload(context, batch, extent_of(batch), {}).batch;
}

UploadedStep BatchUpload::upload(const Context& context, const data::Batch& batch,
                                 const Extent& extent, const StepNumbers& numbers) {
  SLUICE_ASSERT(extent.rows >= batch.rows && extent.source_time >= batch.source_time &&
                extent.target_time >= batch.target_time && extent.resets == !batch.resets.empty());
  const runtime::Span span(context, "data", "upload");
  const Grid sources{extent.source_time, extent.rows};
  const Grid targets{extent.target_time, extent.rows};
  Staging staging(staging_);
  SLUICE_ASSERT(batch.source.empty() || batch.features.empty());
  SLUICE_ASSERT(batch.target_out.empty() || batch.values.empty());
  const Place source = batch.features.empty()
                           ? staging.add(batch.source, batch.source_time, batch.rows, sources)
                           : staging.add(batch.features, batch.source_time, batch.rows, sources);
  const Place source_lengths = staging.add(batch.source_lengths, extent.rows);
  const Place target_in = staging.add(batch.target_in, batch.target_time, batch.rows, targets);
  const Place target_out =
      batch.values.empty() ? staging.add(batch.target_out, batch.target_time, batch.rows, targets)
                           : staging.add(batch.values, batch.target_time, batch.rows, targets);
  const Place target_lengths = staging.add(batch.target_lengths, extent.rows);
  const Place row_ids = staging.add(batch.global_row, extent.rows);
  const Place resets = staging.add(batch.resets, batch.source_time, batch.rows, sources);
  const Place step = staging.add(std::vector{numbers.step}, 1);
  const Place learning_rate = staging.add(numbers.learning_rate);
  const Place scale = staging.add(numbers.scale);
  const Place sampling = staging.add(numbers.sampling);

  const std::size_t bytes = staging_.size() * sizeof(std::int32_t);
  if (memory_.bytes() < bytes) {
    memory_ = runtime::Buffer();
    memory_ = runtime::Buffer(context.device(), std::max(kLeastBytes, std::bit_ceil(bytes)));
  }
  context.stream().upload(memory_.data(), staging_.data(), bytes);

  const auto view = [&](const Place& place) -> Tensor {
    if (!place.shape) return Tensor();
    return memory_.tensor(place.dtype, *place.shape, place.begin * sizeof(std::int32_t));
  };
  UploadedStep uploaded;
  uploaded.batch = {extent,           view(source),         view(source_lengths), view(target_in),
                    view(target_out), view(target_lengths), view(row_ids),        view(resets)};
  uploaded.step = view(step);
  uploaded.learning_rate = view(learning_rate);
  uploaded.scale = view(scale);
  uploaded.sampling = view(sampling);
  return uploaded;
}

}  // namespace sluice::model_files
