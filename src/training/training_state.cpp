#include "training/training_state.h"

#include "io/json_text.h"

namespace sluice::training {
namespace {

using nlohmann::ordered_json;

// Calls visit(key, member) for every key: the one list that writing and reading share.
template <typename State, typename Visit>
void visit_keys(State& state, Visit&& visit) {
  visit("step", state.step);
  visit("epoch", state.position.epoch);
  visit("batch", state.position.batch);
  visit("learning_rate_factor", state.learning_rate.factor);
  visit("learning_rate_has_best", state.learning_rate.has_best);
  visit("learning_rate_best", state.learning_rate.best);
  visit("learning_rate_stalled", state.learning_rate.stalled);
  visit("best_known", state.best.known);
  visit("best_value", state.best.value);
  visit("best_step", state.best.step);
  visit("best_stalled", state.best.stalled);
  visit("validation_due", state.validation_due);
  visit("train_fingerprint", state.train_fingerprint);
  visit("validation_fingerprint", state.validation_fingerprint);
  visit("implementations", state.implementations);
  visit("tuning", state.tuning);
  visit("threads", state.threads);
  visit("device", state.device);
}

}  // namespace

std::string to_json(const TrainingState& state) {
  ordered_json json;
  visit_keys(state, [&](const char* key, const auto& value) { json[key] = value; });
  return json.dump();
}

TrainingState parse_training_state(std::string_view json, std::string_view origin) {
  TrainingState state;
  io::read_json(json, origin, [&](auto&& visit) { visit_keys(state, visit); });
  return state;
}

}  // namespace sluice::training
