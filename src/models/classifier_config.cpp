#include "models/classifier_config.h"

#include <fmt/format.h>

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

std::string ClassifierConfig::refuse_parts() const {
  if (pooling != "last") {
    return fmt::format("the model pools by {} over all tokens; one with pooling last can go on",
                       pooling);
  }
  if (!stack.bidirectional) return "";
  return "the model is bidirectional, so its answer depends on the last token from the first on";
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
