#include "model_files/model_text.h"

#include "io/json_text.h"

namespace sluice::model_files {

using nlohmann::ordered_json;

std::string to_json(const ModelText& text) {
  ordered_json json;
  json["architecture"] = ordered_json::parse(text.architecture);
  json["run"] = text.run;
  return json.dump();
}

ModelText parse_model_text(std::string_view json, std::string_view origin) {
  ModelText text;
  ordered_json architecture;
  io::read_json(json, origin, [&](auto&& visit) {
    visit("architecture", architecture);
    visit("run", text.run);
  });
  text.architecture = architecture.dump();
  return text;
}

}  // namespace sluice::model_files
