#include "bench/train/token_batches.h"

#include "data/tokenizer.h"

namespace sluice::bench::train {

std::int32_t TokenBatches::token() {
  const auto pieces = static_cast<std::uint64_t>(shape_.vocabulary - data::kFirstPieceId);
  return data::kFirstPieceId + static_cast<std::int32_t>(random_.next() % pieces);
}

std::span<const data::Batch> TokenBatches::next() {
  batch_ = draw();
  return {&batch_, 1};
}

data::Batch TokenBatches::draw() {
  const auto rows = static_cast<std::size_t>(shape_.batch);
  const auto target_time = static_cast<std::size_t>(shape_.target_time);
  data::Batch batch;
  batch.rows = shape_.batch;
  batch.source_time = shape_.source_time;
  batch.target_time = shape_.target_time;
  batch.source.resize(rows * static_cast<std::size_t>(shape_.source_time));
  for (std::int32_t& source : batch.source) source = token();
  batch.target_in.resize(rows * target_time);
  batch.target_out.resize(rows * target_time);
  for (std::size_t row = 0; row < rows; ++row) batch.target_in[row] = data::kBosId;
  for (std::size_t i = 0; i < rows * target_time; ++i) {
    const bool last = i + rows >= rows * target_time;
    batch.target_out[i] = last ? data::kEosId : token();
    if (!last) batch.target_in[i + rows] = batch.target_out[i];
  }
  batch.source_lengths.assign(rows, static_cast<std::int32_t>(shape_.source_time));
  batch.target_lengths.assign(rows, static_cast<std::int32_t>(shape_.target_time));
  for (std::size_t row = 0; row < rows; ++row) batch.global_row.push_back(row_++);
  return batch;
}

}  // namespace sluice::bench::train
