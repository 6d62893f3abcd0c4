#include "models/features_config.h"

#include "kernels/pooling/pooling.h"
#include "models/config_json.h"

namespace sluice::models {
namespace {

// The one list of keys that writing and reading share.
template <typename Config, typename Visit>
void visit_keys(Config& config, Visit&& visit) {
  visit("features", config.features);
  visit("normalize", config.normalize);
  visit_stack_keys(config.stack, visit);
  visit("target", config.target);
  visit("outputs", config.outputs);
  visit("pooling", config.pooling);
  visit("output_layer", config.output_layer);
}

}  // namespace

void FeaturesConfig::validate() const {
  check_width("features", features);
  stack.validate();
  SLUICE_CHECK(target == "values" || target == "classes",
               "model.target is '{}'; use values or classes", target);
  check_width("outputs", outputs);
  if (!is_per_frame()) kernels::pooling::parse_kind(pooling);
  SLUICE_CHECK(output_layer || outputs == stack.output_width(),
               "model.output_layer is off, so the width of the stack's last layer (the last of "
               "model.projections, else of model.widths, else model.hidden) must be the number of "
               "{}: it is {}, for {}",
               target, stack.output_width(), outputs);
}

std::string FeaturesConfig::refuse_parts() const {
  if (!is_per_frame()) return "the model answers whole sequences, not each frame";
  if (!stack.bidirectional) return "";
  return "the model is bidirectional, so its first answer depends on the last frame";
}

std::string FeaturesConfig::to_json() const {
  return write_config(kKind, [&](auto&& visit) { visit_keys(*this, visit); });
}

FeaturesConfig FeaturesConfig::from_json(std::string_view text) {
  FeaturesConfig config;
  read_config(kKind, text, [&](auto&& visit) { visit_keys(config, visit); });
  config.validate();
  return config;
}

}  // namespace sluice::models
