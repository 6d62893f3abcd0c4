#include <nanobind/stl/vector.h>
#include <sluice/classifier.h>

#include "answers.h"
#include "loaded.h"

namespace sluice::python {
namespace {

using Self = Loaded<Classifier>;

/// (place of the likeliest label, probability of each)
nb::tuple to_python(const Classified& classified) {
  nb::list probabilities;
  for (const double probability : classified.probabilities) probabilities.append(probability);
  return nb::make_tuple(classified.label, probabilities);
}

nb::list classify(Self& self, const std::vector<std::string>& texts) {
  const auto answers = self.calls->run([&] { return self.model.classify(texts); });
  nb::list list;
  for (const Classified& classified : answers) list.append(to_python(classified));
  return list;
}

nb::tuple classify_part(Self& self, const std::string& text) {
  return to_python(self.calls->run([&] { return self.model.classify_part(text); }));
}

}  // namespace

void bind_classifier(nb::module_& module) {
  auto bound = bind_common<Classifier>(module, "Classifier");
  bind_parts(bound, &Classifier::begin_text);
  bound.def_static("load", load<Classifier, SegmenterChoice>, "path"_a, "place"_a, "segmenters"_a);
  bound.def_prop_ro("labels", [](const Self& self) { return to_texts(self.model.labels()); });
  bound.def("classify", classify, "texts"_a);
  bound.def("part", classify_part, "text"_a);
}

}  // namespace sluice::python
