#include "errors.h"
#include "loaded.h"

NB_MODULE(_models, module) {
  using namespace sluice::python;
  module.doc() = "The models of include/sluice/. sluice.models is what to call.";
  translate_errors();
  nb::class_<Place>(module, "Place")
      .def(
          "__init__",
          [](Place* self, std::string device, std::string precision, std::int64_t bytes) {
            new (self) Place{std::move(device), std::move(precision), bytes};
          },
          "device"_a, "precision"_a, "plan_cache_bytes"_a);
  nb::class_<sluice::SegmenterChoice>(module, "SegmenterChoice")
      .def(
          "__init__",
          [](sluice::SegmenterChoice* self, bool trust, std::optional<std::string> source,
             std::optional<std::string> target) {
            new (self) sluice::SegmenterChoice{trust, std::move(source), std::move(target)};
          },
          "trust"_a, "source"_a.none(), "target"_a.none());
  module.def(
      "kind_of_model", [](const std::string& path) { return to_text(sluice::kind_of_model(path)); },
      "path"_a);
  bind_check(module);
  bind_sequence_model(module);
  bind_language_model(module);
  bind_tagger(module);
  bind_classifier(module);
  bind_feature_model(module);
  bind_train(module);
  bind_convert(module);
}
