#include <nlohmann/json.hpp>

#include "sluice/language_model.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

Json object_of(const Hypothesis& answer) {
  return {{"text", answer.text},
          {"score", answer.score},
          {"normalised_score", answer.normalised_score},
          {"pieces", answer.pieces}};
}

std::string line_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const Decoded& decoded, std::size_t input) {
  Json answers = Json::array();
  for (const Hypothesis& answer : decoded.hypotheses) answers.push_back(object_of(answer));
  return line_of({{"input", input}, {"answers", std::move(answers)}});
}

std::string to_json(const Hypothesis& hypothesis) {
  Json object = object_of(hypothesis);
  object["ended"] = hypothesis.ended;
  return line_of(object);
}

}  // namespace sluice
