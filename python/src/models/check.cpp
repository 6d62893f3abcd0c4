#include <nanobind/stl/vector.h>
#include <sluice/check.h>

#include "arrays.h"
#include "loaded.h"

namespace sluice::python {
namespace {

using Self = Loaded<Checker>;
using Texts = std::vector<std::string>;

Self load_checker(const std::string& path, const Place& place, const std::string& implementation,
                  const SegmenterChoice& segmenters) {
  auto calls = std::make_unique<Calls>();
  Checker checker = calls->run([&] {
    return Checker::load(path, {place.with(*calls), implementation}, segmenters);
  });
  return {std::move(calls), std::move(checker)};
}

CheckInputs inputs_of(Texts texts, Texts targets, std::vector<Texts> sentences,
                      const std::vector<FrameArray>& sequences,
                      const std::vector<std::optional<ResetArray>>& resets,
                      const std::optional<FrameArray>& features) {
  CheckInputs inputs{std::move(texts), std::move(targets), std::move(sentences), {}, {}};
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    Frames& frames = inputs.sequences.emplace_back();
    frames.width = static_cast<std::int64_t>(sequences[i].shape(1));
    frames.values.assign(sequences[i].data(), sequences[i].data() + sequences[i].size());
    if (!resets.at(i)) continue;
    frames.resets.assign(resets[i]->data(), resets[i]->data() + resets[i]->size());
  }
  if (features) {
    inputs.features.width = static_cast<std::int64_t>(features->shape(1));
    inputs.features.values.assign(features->data(), features->data() + features->size());
  }
  return inputs;
}

/// The report as JSON and as text.
nb::tuple to_python(const CheckReport& report) {
  return nb::make_tuple(to_text(sluice::to_json(report)), to_text(sluice::to_text(report)));
}

}  // namespace

void bind_check(nb::module_& module) {
  nb::class_<CheckInputs>(module, "CheckInputs")
      .def(
          "__init__",
          [](CheckInputs* self, Texts texts, Texts targets, std::vector<Texts> sentences,
             const std::vector<FrameArray>& sequences,
             const std::vector<std::optional<ResetArray>>& resets,
             const std::optional<FrameArray>& features) {
            new (self) CheckInputs(inputs_of(std::move(texts), std::move(targets),
                                             std::move(sentences), sequences, resets, features));
          },
          "texts"_a, "targets"_a, "sentences"_a, "sequences"_a, "resets"_a, "features"_a.none());
  nb::class_<Self>(module, "Checker")
      .def_static("load", load_checker, "path"_a, "place"_a, "implementation"_a, "segmenters"_a)
      .def(
          "compare",
          [](Self& self, const Place& place, const std::string& implementation,
             const CheckInputs& inputs, double tolerance) {
            const CheckSide side{place.with(*self.calls), implementation};
            return to_python(
                self.calls->run([&] { return self.model.compare(side, inputs, tolerance); }));
          },
          "place"_a, "implementation"_a, "inputs"_a, "tolerance"_a)
      .def(
          "compare_file",
          [](Self& self, const std::string& file, const CheckInputs& inputs, double tolerance) {
            return to_python(
                self.calls->run([&] { return self.model.compare(file, inputs, tolerance); }));
          },
          "file"_a, "inputs"_a, "tolerance"_a)
      .def("record", call(&Checker::record), "file"_a, "inputs"_a);
}

}  // namespace sluice::python
