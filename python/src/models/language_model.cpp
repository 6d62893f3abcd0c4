#include <nanobind/stl/vector.h>
#include <sluice/language_model.h>

#include "answers.h"
#include "arrays.h"
#include "beam.h"
#include "loaded.h"

namespace sluice::python {
namespace {

using Self = Loaded<LanguageModel>;
using Texts = std::vector<std::string>;

GenerateOptions options_of(const std::string& prefix, const std::optional<FrameArray>& features,
                           std::int64_t min_length, std::int64_t max_length, std::int64_t batch,
                           const SampleOptions& sample) {
  GenerateOptions options;
  options.sample = sample;
  options.prefix = prefix;
  options.features = vectors_of(features);
  options.min_length = min_length;
  options.max_length = max_length;
  options.batch = batch;
  return options;
}

nb::list generate(Self& self, const std::string& prefix, const std::optional<FrameArray>& features,
                  std::int64_t min_length, std::int64_t max_length, std::int64_t batch,
                  const Texts& banned, std::int64_t no_repeat, const SampleOptions& sample) {
  auto options = options_of(prefix, features, min_length, max_length, batch, sample);
  options.banned = banned;
  options.no_repeat = no_repeat;
  return to_python(self.calls->run([&] { return self.model.generate(options); }));
}

nb::list search(Self& self, const std::string& prefix, const std::optional<FrameArray>& features,
                std::int64_t min_length, std::int64_t max_length, std::int64_t batch,
                const Texts& banned, std::int64_t no_repeat, std::int64_t beam, std::int64_t nbest,
                double length_penalty, std::int64_t groups, double diversity, const Texts& forced) {
  auto options = options_of(prefix, features, min_length, max_length, batch, {});
  options.banned = banned;
  options.no_repeat = no_repeat;
  options.search = BeamOptions{beam, nbest, length_penalty, groups, diversity, forced};
  return to_python(self.calls->run([&] { return self.model.generate(options); }));
}

nb::tuple generate_part(Self& self, const std::string& prefix,
                        const std::optional<FrameArray>& features, std::int64_t min_length,
                        std::int64_t max_length, std::int64_t batch, const SampleOptions& sample,
                        const nb::bytes& state) {
  const auto options = options_of(prefix, features, min_length, max_length, batch, sample);
  const std::string_view from(state.c_str(), state.size());
  const TextParts parts = self.calls->run([&] { return self.model.generate_part(options, from); });
  return nb::make_tuple(to_python(parts.texts), nb::bytes(parts.state.data(), parts.state.size()));
}

nb::list score(Self& self, const std::vector<std::string>& texts,
               const std::optional<FrameArray>& features) {
  const FeatureVectors vectors = vectors_of(features);
  return to_python(self.calls->run([&] { return self.model.score(texts, vectors); }));
}

}  // namespace

FeatureVectors vectors_of(const std::optional<FrameArray>& array) {
  if (!array) return {};
  return {static_cast<std::int64_t>(array->shape(1)),
          {array->data(), array->data() + array->size()}};
}

void bind_language_model(nb::module_& module) {
  auto bound = bind_common<LanguageModel>(module, "LanguageModel");
  bound.def_static("load", load<LanguageModel, SegmenterChoice>, "path"_a, "place"_a,
                   "segmenters"_a);
  bound.def_prop_ro("features", [](const Self& self) { return self.model.features(); });
  bound.def("generate", generate, "prefix"_a, "features"_a.none(), "min_length"_a, "max_length"_a,
            "batch"_a, "banned"_a, "no_repeat"_a, "sample"_a);
  bound.def("search", search, "prefix"_a, "features"_a.none(), "min_length"_a, "max_length"_a,
            "batch"_a, "banned"_a, "no_repeat"_a, "beam"_a, "nbest"_a, "length_penalty"_a,
            "groups"_a, "diversity"_a, "forced"_a);
  bound.def("generate_part", generate_part, "prefix"_a, "features"_a.none(), "min_length"_a,
            "max_length"_a, "batch"_a, "sample"_a, "state"_a);
  bound.def("score", score, "texts"_a, "features"_a.none());
  bind_beam(module, bound);
}

}  // namespace sluice::python
