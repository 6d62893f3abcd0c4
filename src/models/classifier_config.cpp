#include "models/classifier_config.h"

#include "kernels/pooling/pooling.h"
#include "models/config_json.h"

namespace sluice::models {
namespace {

// The one list of keys that writing and reading share.
template <typename Config, typename Visit>
void visit_keys(Config& config, Visit&& visit) {
  visit("vocabulary", config.vocabulary);
  visit("classes", config.classes);
  visit("embedding", config.embedding);
  visit_stack_keys(config.stack, visit);
  visit("pooling", config.pooling);
}

}  // namespace

void ClassifierConfig::validate() const {
  check_width("vocabulary", vocabulary);
  check_width("classes", classes);
  check_width("embedding", embedding);
  stack.validate();
  kernels::pooling::parse_kind(pooling);
}

std::string ClassifierConfig::to_json() const {
  return write_config(kKind, [&](auto&& visit) { visit_keys(*this, visit); });
}

ClassifierConfig ClassifierConfig::from_json(std::string_view text) {
  ClassifierConfig config;
  read_config(kKind, text, [&](auto&& visit) { visit_keys(config, visit); });
  config.validate();
  return config;
}

}  // namespace sluice::models
