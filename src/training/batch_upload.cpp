#include "training/batch_upload.h"

#include <algorithm>

namespace sluice::training {
namespace {

using runtime::DType;
using runtime::Shape;

// Ints between the starts of two tensors are a multiple of this: 64 bytes.
constexpr std::size_t kAlignment = 16;

/// Appends `values` at the next aligned place and returns it.
template <typename Int>
std::size_t append(std::vector<std::int32_t>& staging, const std::vector<Int>& values) {
  const std::size_t begin = base::align_up(staging.size(), kAlignment);
  staging.resize(begin + values.size());
  std::transform(values.begin(), values.end(), staging.begin() + static_cast<std::ptrdiff_t>(begin),
                 [](Int value) { return static_cast<std::int32_t>(value); });
  return begin;
}

}  // namespace

models::Seq2SeqBatch BatchUpload::upload(const Context& context, const data::PairBatch& batch) {
  staging_.clear();
  const std::size_t source = append(staging_, batch.source);
  const std::size_t source_lengths = append(staging_, batch.source_lengths);
  const std::size_t target_in = append(staging_, batch.target_in);
  const std::size_t target_out = append(staging_, batch.target_out);
  const std::size_t target_lengths = append(staging_, batch.target_lengths);
  const std::size_t row_ids = append(staging_, batch.global_row);

  const std::size_t bytes = staging_.size() * sizeof(std::int32_t);
  if (memory_.bytes() < bytes) {
    memory_ = runtime::Buffer();
    memory_ = runtime::Buffer(context.device(), bytes);
  }
  context.stream().upload(memory_.data(), staging_.data(), bytes);

  const auto view = [&](std::size_t begin, const Shape& shape) {
    return memory_.tensor(DType::kInt32, shape, begin * sizeof(std::int32_t));
  };
  models::Seq2SeqBatch uploaded;
  uploaded.extent = {batch.rows, batch.source_time, batch.target_time};
  uploaded.source = view(source, {batch.source_time, batch.rows});
  uploaded.source_lengths = view(source_lengths, {batch.rows});
  uploaded.target_in = view(target_in, {batch.target_time, batch.rows});
  uploaded.target_out = view(target_out, {batch.target_time, batch.rows});
  uploaded.target_lengths = view(target_lengths, {batch.rows});
  uploaded.row_ids = view(row_ids, {batch.rows});
  return uploaded;
}

}  // namespace sluice::training
