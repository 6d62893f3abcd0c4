#include <nanobind/stl/vector.h>
#include <sluice/tagger.h>

#include "answers.h"
#include "loaded.h"

namespace sluice::python {
namespace {

using Self = Loaded<Tagger>;
using Tokens = std::vector<std::string>;

/// (tokens, labels, [(type, begin, end), ...])
nb::tuple to_python(const TaggedSentence& sentence) {
  nb::list entities;
  for (const Entity& entity : sentence.entities) {
    entities.append(nb::make_tuple(to_text(entity.type), entity.begin, entity.end));
  }
  return nb::make_tuple(to_texts(sentence.tokens), to_texts(sentence.labels), entities);
}

nb::list tag(Self& self, const std::vector<Tokens>& sentences, std::int64_t batch) {
  TagOptions options;
  options.batch = batch;
  const auto tagged = self.calls->run([&] { return self.model.tag(sentences, options); });
  nb::list list;
  for (const TaggedSentence& sentence : tagged) list.append(to_python(sentence));
  return list;
}

nb::tuple tag_part(Self& self, const Tokens& tokens) {
  return to_python(self.calls->run([&] { return self.model.tag_part(tokens); }));
}

}  // namespace

void bind_tagger(nb::module_& module) {
  auto bound = bind_common<Tagger>(module, "Tagger");
  bind_parts(bound, &Tagger::begin_sentence);
  bound.def_static("load", load<Tagger>, "path"_a, "place"_a);
  bound.def_prop_ro("labels", [](const Self& self) { return to_texts(self.model.labels()); });
  bound.def("tag", tag, "sentences"_a, "batch"_a);
  bound.def("part", tag_part, "tokens"_a);
}

}  // namespace sluice::python
