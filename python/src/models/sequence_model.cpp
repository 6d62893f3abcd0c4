#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>
#include <sluice/sequence_model.h>

#include "answers.h"
#include "loaded.h"

namespace sluice::python {
namespace {

using Self = Loaded<SequenceModel>;
using Texts = std::vector<std::string>;

nb::list decode(Self& self, const Texts& inputs, std::int64_t beam, std::int64_t nbest,
                double length_penalty, std::int64_t min_length, std::int64_t max_length,
                const Texts& prefixes, const Texts& banned, std::int64_t no_repeat,
                const std::vector<Texts>& forced, double coverage_penalty, std::int64_t groups,
                double diversity, bool attention, std::int64_t batch,
                const std::optional<SampleOptions>& sample) {
  DecodeOptions options;
  options.sample = sample;
  options.beam = beam;
  options.nbest = nbest;
  options.length_penalty = length_penalty;
  options.min_length = min_length;
  options.max_length = max_length;
  options.prefixes = prefixes;
  options.banned = banned;
  options.no_repeat = no_repeat;
  options.forced = forced;
  options.coverage_penalty = coverage_penalty;
  options.groups = groups;
  options.diversity = diversity;
  options.attention = attention;
  options.batch = batch;
  const auto answers = self.calls->run([&] { return self.model.decode(inputs, options); });
  nb::list list;
  for (const Decoded& decoded : answers) {
    list.append(nb::make_tuple(to_texts(decoded.source_pieces), to_python(decoded.hypotheses)));
  }
  return list;
}

nb::list score(Self& self, const std::vector<std::pair<std::string, std::string>>& pairs) {
  return to_python(self.calls->run([&] { return self.model.score(pairs); }));
}

}  // namespace

void bind_sequence_model(nb::module_& module) {
  nb::class_<SampleOptions>(module, "SampleOptions")
      .def(
          "__init__",
          [](SampleOptions* self, std::int64_t samples, double temperature, std::int64_t top_k,
             double top_p, std::uint64_t seed, bool without_replacement) {
            new (self) SampleOptions{samples, temperature, top_k, top_p, seed, without_replacement};
          },
          "samples"_a, "temperature"_a, "top_k"_a, "top_p"_a, "seed"_a, "without_replacement"_a);
  auto bound = bind_common<SequenceModel>(module, "SequenceModel");
  bound.def_static("load", load<SequenceModel, SegmenterChoice>, "path"_a, "place"_a,
                   "segmenters"_a);
  bound.def("decode", decode, "inputs"_a, "beam"_a, "nbest"_a, "length_penalty"_a, "min_length"_a,
            "max_length"_a, "prefixes"_a, "banned"_a, "no_repeat"_a, "forced"_a,
            "coverage_penalty"_a, "groups"_a, "diversity"_a, "attention"_a, "batch"_a,
            "sample"_a.none());
  bound.def("score", score, "pairs"_a);
}

}  // namespace sluice::python
