#include "api/conversion_inputs.h"

#include <algorithm>

namespace sluice::api {
namespace {

using interchange::LayerOutput;
using interchange::Sequence;
using interchange::SourceModel;

constexpr auto kRows = std::int64_t{std::tuple_size_v<Lengths>};

std::int64_t width_of(const interchange::SourceLayer& layer) {
  if (const auto* recurrent = std::get_if<interchange::RecurrentLayer>(&layer)) {
    return recurrent->input();
  }
  if (const auto* linear = std::get_if<interchange::LinearLayer>(&layer)) {
    return linear->weight.shape[1];
  }
  return std::get<interchange::AffineLayer>(layer).scale.shape[0];
}

/// The model's ids of the source's.
std::vector<std::vector<std::int64_t>> mapped(std::vector<std::vector<std::int64_t>> rows,
                                              const std::vector<std::int32_t>& ids) {
  for (std::vector<std::int64_t>& row : rows) {
    for (std::int64_t& id : row) id = ids[static_cast<std::size_t>(id)];
  }
  return rows;
}

}  // namespace

ConversionInputs::ConversionInputs(const SourceModel& source, const interchange::Assembled& made,
                                   std::uint64_t seed, const Lengths& lengths)
    : engine_(seed), lengths_(lengths) {
  for (const std::int32_t length : lengths_) {
    if (const auto* embedding = std::get_if<interchange::EmbeddingLayer>(&source.layers.front())) {
      add_ids(length, embedding->table.shape[0], ids_);
      if (source.decoder.empty()) continue;
      const auto& fed = std::get<interchange::EmbeddingLayer>(source.decoder.front());
      add_ids(length, fed.table.shape[0], fed_);
    } else {
      add_frames(length, width_of(source.layers.front()));
    }
  }
  model_ids_ = mapped(ids_, made.ids);
  model_fed_ = mapped(fed_, made.target_ids);
  make_batch(source, made);
}

std::vector<LayerOutput> ConversionInputs::evaluate(const SourceModel& source, std::size_t row,
                                                    const interchange::Noise& noise) const {
  if (!fed_.empty()) return interchange::evaluate(source, ids_[row], fed_[row], noise);
  return ids_.empty() ? interchange::evaluate(source, frames_[row], noise)
                      : interchange::evaluate(source, ids_[row], noise);
}

std::vector<LayerOutput> ConversionInputs::evaluate_written(const SourceModel& written,
                                                            std::size_t row) const {
  return ids_.empty() ? interchange::evaluate(written, frames_[row])
                      : interchange::evaluate(written, model_ids_[row]);
}

void ConversionInputs::add_ids(std::int64_t length, std::int64_t vocabulary, Ids& rows) {
  std::uniform_int_distribution<std::int64_t> draw(0, vocabulary - 1);
  std::vector<std::int64_t>& ids = rows.emplace_back();
  for (std::int64_t i = 0; i < length; ++i) ids.push_back(draw(engine_));
}

void ConversionInputs::add_frames(std::int64_t length, std::int64_t width) {
  std::normal_distribution<double> draw;
  Sequence& frames = frames_.emplace_back(interchange::make_sequence(length, width));
  // Both sides get the same float32 numbers.
  for (double& value : frames.values) value = static_cast<float>(draw(engine_));
}

template <typename Use>
void ConversionInputs::for_each_step(const Use& use) const {
  for (std::size_t row = 0; row < lengths_.size(); ++row) {
    for (std::int64_t step = 0; step < lengths_[row]; ++step) {
      use(row, step, static_cast<std::size_t>(step * kRows) + row);
    }
  }
}

std::vector<std::int32_t> ConversionInputs::tokens_of(const Ids& rows) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(lengths_[0] * kRows));
  for_each_step([&](std::size_t row, std::int64_t step, std::size_t place) {
    tokens[place] = static_cast<std::int32_t>(rows[row][static_cast<std::size_t>(step)]);
  });
  return tokens;
}

void ConversionInputs::make_batch(const SourceModel& source, const interchange::Assembled& made) {
  batch_.rows = kRows;
  const std::int64_t steps = lengths_[0];
  batch_.source_time = batch_.target_time = steps;
  batch_.source_lengths.assign(lengths_.begin(), lengths_.end());
  batch_.target_lengths = batch_.source_lengths;
  batch_.global_row = {0, 1, 2, 3};
  const bool pools = std::ranges::any_of(source.layers, [](const auto& layer) {
    return std::holds_alternative<interchange::PoolingLayer>(layer);
  });
  if (pools) {
    batch_.target_time = 1;
    batch_.target_lengths.assign(lengths_.size(), 1);
  }
  if (ids_.empty()) {
    const std::int64_t width = frames_.front().width;
    batch_.features.resize(static_cast<std::size_t>(steps * kRows * width));
    for_each_step([&](std::size_t row, std::int64_t step, std::size_t place) {
      const double* from = frames_[row].row(step);
      std::copy_n(from, width, batch_.features.begin() + static_cast<std::int64_t>(place) * width);
    });
  } else {
    batch_.source = tokens_of(model_ids_);
  }
  if (!fed_.empty()) batch_.target_in = tokens_of(model_fed_);
  if (made.kind == "language_model") {
    batch_.target_in = std::move(batch_.source);
    batch_.source.clear();
    batch_.source_lengths.clear();
    batch_.source_time = 0;
  }
  // Targets count in a loss that nobody reads.
  const auto targets = static_cast<std::size_t>(batch_.target_time * kRows);
  batch_.target_out.assign(targets, 0);
}

}  // namespace sluice::api
