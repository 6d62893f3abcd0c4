#include "models/tagger.h"

#include "models/tagger_training.h"

namespace sluice::models {
namespace {

namespace recurrent = kernels::recurrent;

recurrent::Descriptor architecture_of(const TaggerConfig& config) {
  recurrent::Descriptor d;
  d.cell = recurrent::parse_cell(config.cell);
  d.layers = config.layers;
  d.directions = config.bidirectional ? 2 : 1;
  d.input = config.embedding;
  d.hidden = config.hidden / d.directions;
  for (const std::int64_t width : config.widths) d.widths.push_back(width / d.directions);
  d.dropout = config.dropout;
  d.peepholes = config.peepholes;
  d.layer_norm = config.layer_norm;
  d.zoneout_h = config.zoneout_h;
  d.zoneout_c = config.zoneout_c;
  d.recurrent_dropout = config.recurrent_dropout;
  d.hard_sigmoid = config.hard_sigmoid;
  return d;
}

const TaggerConfig& validated(const TaggerConfig& config) {
  config.validate();
  return config;
}

}  // namespace

Tagger::Tagger(const TaggerConfig& config)
    : config_(validated(config)),
      embedding_(parameters_, "embedding", config.vocabulary, config.embedding),
      stack_(parameters_, "recurrent", architecture_of(config)),
      output_(parameters_, "output", config.output_width(), config.labels) {
  if (config.has_crf()) crf_.emplace(parameters_, "crf", config.labels);
}

std::unique_ptr<TrainingPlan> Tagger::training_plan(const Context& context,
                                                    runtime::ArenaPlanner& planner,
                                                    const Extent& capacity, bool training) const {
  return std::make_unique<TaggerTraining>(context, *this, planner, capacity, training);
}

}  // namespace sluice::models
