#include "training/batch_upload.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/span.h"

namespace sluice::training {
namespace {

using models::Seq2SeqExtent;
using runtime::DType;
using runtime::Shape;

// Ints between the starts of two tensors are a multiple of this: 64 bytes.
constexpr std::size_t kAlignment = 16;
// So much that it hardly ever grows: what is captured on it must then be captured anew.
constexpr std::size_t kLeastBytes = 1 << 20;

/// What a tensor on the device will be: a place in the staged numbers.
struct Place {
  std::size_t begin = 0;
  DType dtype = DType::kInt32;
  Shape shape;
};

/// Lines up what is to be copied.
class Staging {
 public:
  explicit Staging(std::vector<std::int32_t>& numbers) : numbers_(numbers) { numbers_.clear(); }

  /// values [rows], then zeros up to `wanted`.
  template <typename Int>
  Place add(const std::vector<Int>& values, std::int64_t wanted) {
    return add(values, 1, std::ssize(values), {wanted});
  }
  /// values [time, rows] as [wanted time, wanted rows]; what is added is zero, the id of padding.
  template <typename Int>
  Place add(const std::vector<Int>& values, std::int64_t time, std::int64_t rows,
            const Shape& wanted) {
    const std::int64_t width = wanted[wanted.rank() - 1];
    const Place place{take(static_cast<std::size_t>(wanted.element_count())), DType::kInt32,
                      wanted};
    for (std::int64_t t = 0; t < time; ++t) {
      const auto row = values.begin() + t * rows;
      std::transform(row, row + rows,
                     numbers_.begin() + static_cast<std::ptrdiff_t>(place.begin) + t * width,
                     [](Int value) { return static_cast<std::int32_t>(value); });
    }
    return place;
  }
  Place add(double value) {
    const Place place{take(2), DType::kFloat64, {1}};
    std::memcpy(numbers_.data() + place.begin, &value, sizeof value);
    return place;
  }

 private:
  std::size_t take(std::size_t count) {
    const std::size_t begin = base::align_up(numbers_.size(), kAlignment);
    numbers_.resize(begin + count);
    return begin;
  }

  std::vector<std::int32_t>& numbers_;
};

}  // namespace

Seq2SeqExtent extent_of(const data::PairBatch& batch) {
  return {batch.rows, batch.source_time, batch.target_time};
}

models::Seq2SeqBatch BatchUpload::upload(const Context& context, const data::PairBatch& batch) {
  return upload(context, batch, extent_of(batch), {}).batch;
}

UploadedStep BatchUpload::upload(const Context& context, const data::PairBatch& batch,
                                 const Seq2SeqExtent& extent, const StepNumbers& numbers) {
  SLUICE_ASSERT(extent.rows >= batch.rows && extent.source_time >= batch.source_time &&
                extent.target_time >= batch.target_time);
  const runtime::Span span(context, "data", "upload");
  const Shape source_shape{extent.source_time, extent.rows};
  const Shape target_shape{extent.target_time, extent.rows};
  Staging staging(staging_);
  const Place source = staging.add(batch.source, batch.source_time, batch.rows, source_shape);
  const Place source_lengths = staging.add(batch.source_lengths, extent.rows);
  const Place target_in = staging.add(batch.target_in, batch.target_time, batch.rows, target_shape);
  const Place target_out =
      staging.add(batch.target_out, batch.target_time, batch.rows, target_shape);
  const Place target_lengths = staging.add(batch.target_lengths, extent.rows);
  const Place row_ids = staging.add(batch.global_row, extent.rows);
  const Place step = staging.add(std::vector{numbers.step}, 1);
  const Place learning_rate = staging.add(numbers.learning_rate);
  const Place scale = staging.add(numbers.scale);

  const std::size_t bytes = staging_.size() * sizeof(std::int32_t);
  if (memory_.bytes() < bytes) {
    memory_ = runtime::Buffer();
    memory_ = runtime::Buffer(context.device(), std::max(kLeastBytes, std::bit_ceil(bytes)));
  }
  context.stream().upload(memory_.data(), staging_.data(), bytes);

  const auto view = [&](const Place& place) {
    return memory_.tensor(place.dtype, place.shape, place.begin * sizeof(std::int32_t));
  };
  UploadedStep uploaded;
  uploaded.batch = {extent,           view(source),         view(source_lengths), view(target_in),
                    view(target_out), view(target_lengths), view(row_ids)};
  uploaded.step = view(step);
  uploaded.learning_rate = view(learning_rate);
  uploaded.scale = view(scale);
  return uploaded;
}

}  // namespace sluice::training
