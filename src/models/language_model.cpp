#include "models/language_model.h"

#include <fmt/format.h>

#include <optional>

#include "models/language_model_training.h"

namespace sluice::models {
namespace {

namespace recurrent = kernels::recurrent;

recurrent::Descriptor architecture_of(const LanguageModelConfig& config) {
  recurrent::Descriptor d;
  d.cell = recurrent::parse_cell(config.cell);
  d.layers = config.layers;
  d.input = config.embedding;
  d.hidden = config.hidden;
  if (config.projection > 0) d.projections = {config.projection};
  d.dropout = config.dropout;
  d.peepholes = config.peepholes;
  d.layer_norm = config.layer_norm;
  d.zoneout_h = config.zoneout_h;
  d.zoneout_c = config.zoneout_c;
  d.recurrent_dropout = config.recurrent_dropout;
  d.hard_sigmoid = config.hard_sigmoid;
  return d;
}

const LanguageModelConfig& validated(const LanguageModelConfig& config) {
  config.validate();
  return config;
}

}  // namespace

LanguageModel::LanguageModel(const LanguageModelConfig& config)
    : config_(validated(config)),
      embedding_(parameters_, "embedding", config.vocabulary, config.embedding),
      stack_(parameters_, "recurrent", architecture_of(config)),
      output_(parameters_, "output", config.width(), config.vocabulary,
              config.tie_embeddings == "none" ? std::nullopt : std::optional(embedding_.weight())) {
  if (config.features == 0) return;
  const auto add = [&](const char* state, std::int64_t width) {
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      start_.emplace_back(parameters_, fmt::format("start_{}_l{}", state, layer), config.features,
                          width);
    }
  };
  add("h", config.width());
  if (has_cell_state()) add("c", config.hidden);
}

std::unique_ptr<TrainingPlan> LanguageModel::training_plan(const Context& context,
                                                           runtime::ArenaPlanner& planner,
                                                           const Extent& capacity,
                                                           bool training) const {
  return std::make_unique<LanguageModelTraining>(context, *this, planner, capacity, training);
}

bool LanguageModel::has_cell_state() const {
  return stack_.architecture().cell == recurrent::CellType::kLstm;
}

void LanguageModel::carry_states(const Context& context, std::int64_t rows) {
  SLUICE_CHECK(config_.features == 0,
               "a language model with model.features starts from them, so it can't carry states "
               "from batch to batch");
  const auto make = [&] {
    return std::make_unique<CarriedStates>(context, rows, parameters_.storage(context), h_shape(1),
                                           has_cell_state() ? c_shape(1) : Shape());
  };
  carried_training_ = make();
  carried_evaluation_ = make();
}

std::vector<NamedTensor> LanguageModel::carried_tensors() const {
  if (!carried_training_) return {};
  const RecurrentStates& kept = carried_training_->kept();
  std::vector<NamedTensor> tensors{{"states.h", kept.h}};
  if (kept.c) tensors.push_back({"states.c", kept.c});
  return tensors;
}

}  // namespace sluice::models
