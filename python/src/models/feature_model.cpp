#include <nanobind/stl/vector.h>
#include <sluice/feature_model.h>

#include <algorithm>
#include <span>

#include "answers.h"
#include "arrays.h"
#include "loaded.h"

namespace sluice::python {
namespace {

using Self = Loaded<FeatureModel>;

Frames frames_of(const FrameArray& array, const std::optional<ResetArray>& resets) {
  Frames frames;
  frames.width = static_cast<std::int64_t>(array.shape(1));
  frames.values.assign(array.data(), array.data() + array.size());
  if (resets) frames.resets.assign(resets->data(), resets->data() + resets->size());
  return frames;
}

void fill(const AnswerArray& array, const Frames& answers) {
  if (array.size() != answers.values.size()) {
    throw nb::value_error("the array for answers has another size than they");
  }
  std::copy(answers.values.begin(), answers.values.end(), array.data());
}

/// Fills an array [time or 1, outputs] for each sequence.
void run(Self& self, const std::vector<FrameArray>& sequences,
         const std::vector<std::optional<ResetArray>>& resets,
         const std::vector<AnswerArray>& answers) {
  if (resets.size() != sequences.size() || answers.size() != sequences.size()) {
    throw nb::value_error("there must be resets and answers for each sequence");
  }
  std::vector<Frames> given;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    given.push_back(frames_of(sequences[i], resets[i]));
  }
  const auto found = self.calls->run([&] { return self.model.run(given); });
  for (std::size_t i = 0; i < found.size(); ++i) fill(answers[i], found[i]);
}

void run_part(Self& self, const FrameArray& frames, const AnswerArray& answers) {
  self.calls->run([&] {
    self.model.run_part(std::span(frames.data(), frames.size()),
                        std::span(answers.data(), answers.size()));
  });
}

void run_part_with_resets(Self& self, const FrameArray& frames, const ResetArray& resets,
                          const AnswerArray& answers) {
  const Frames given = frames_of(frames, resets);
  fill(answers, self.calls->run([&] { return self.model.run_part(given); }));
}

}  // namespace

void bind_feature_model(nb::module_& module) {
  auto bound = bind_common<FeatureModel>(module, "FeatureModel");
  bind_parts(bound, &FeatureModel::begin_sequence);
  bound.def_static("load", load<FeatureModel>, "path"_a, "place"_a);
  bound.def_prop_ro("features", [](const Self& self) { return self.model.features(); });
  bound.def_prop_ro("outputs", [](const Self& self) { return self.model.outputs(); });
  bound.def_prop_ro("answers_each_frame",
                    [](const Self& self) { return self.model.answers_each_frame(); });
  bound.def_prop_ro("labels", [](const Self& self) { return to_texts(self.model.labels()); });
  bound.def("run", run, "sequences"_a, "resets"_a, "answers"_a);
  bound.def("part", run_part, "frames"_a, "answers"_a);
  bound.def("part_with_resets", run_part_with_resets, "frames"_a, "resets"_a, "answers"_a);
}

}  // namespace sluice::python
