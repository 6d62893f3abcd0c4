#include "beam.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arrays.h"
#include "loaded.h"

namespace sluice::python {
namespace {

using Self = Loaded<LanguageModel>;
using TokenArray = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ScoreArray = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MaskArray = nb::ndarray<const std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

/// A search's result and the model that it must not outlive, whose calls it takes part in.
struct BoundBeam {
  Beam beam;
  Calls* calls;
};

/// Numbers at an address, which may be of a GPU's memory.
struct Numbers {
  std::uintptr_t address = 0;
  std::int64_t count = 0;

  std::span<const float> span() const {
    return {reinterpret_cast<const float*>(address), static_cast<std::size_t>(count)};
  }
};

template <typename Array>
auto span_of(const std::optional<Array>& array) {
  using Span = decltype(std::span(array->data(), array->size()));
  return array ? Span(array->data(), array->size()) : Span();
}

/// An array of NumPy that owns its numbers.
template <typename T>
nb::object array_of(std::vector<T> values, std::initializer_list<std::size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned,
                          [](void* held) noexcept { delete static_cast<std::vector<T>*>(held); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape, owner));
}

nb::object choices(const BoundBeam& self, auto(Beam::*get)() const) {
  auto values = self.calls->run([&] { return (self.beam.*get)(); });
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  return array_of(std::move(values),
                  {size(self.beam.steps()), size(self.beam.inputs()), size(self.beam.beam())});
}

nb::tuple states_of(RowStates states) {
  const auto flat = [](auto values) {
    const std::size_t count = values.size();
    return array_of(std::move(values), {count});
  };
  return nb::make_tuple(flat(std::move(states.h)), flat(std::move(states.c)),
                        flat(std::move(states.tokens)));
}

nb::list finished(const BoundBeam& self) {
  const auto found = self.calls->run([&] { return self.beam.finished(); });
  nb::list all;
  for (const auto& of_input : found) {
    nb::list sequences;
    for (const FinishedSequence& one : of_input) {
      sequences.append(nb::make_tuple(to_text(one.text), array_of(one.tokens, {one.tokens.size()}),
                                      one.score, one.normalised_score, one.row));
    }
    all.append(sequences);
  }
  return all;
}

BoundBeam beam(Self& self, std::int64_t inputs, bool every_beam,
               std::pair<std::uintptr_t, std::int64_t> h, std::pair<std::uintptr_t, std::int64_t> c,
               bool on_device, const std::optional<TokenArray>& tokens,
               const std::optional<ScoreArray>& scores, std::int64_t steps, std::int64_t beam,
               std::int64_t nbest, std::int64_t min_length, double length_penalty,
               bool allow_unknown, const std::optional<MaskArray>& allowed) {
  BeamStart start;
  start.inputs = inputs;
  start.every_beam = every_beam;
  start.h = Numbers{h.first, h.second}.span();
  start.c = Numbers{c.first, c.second}.span();
  start.states_on_device = on_device;
  start.tokens = span_of(tokens);
  start.scores = span_of(scores);
  BeamStepOptions options;
  options.steps = steps;
  options.beam = beam;
  options.nbest = nbest;
  options.min_length = min_length;
  options.length_penalty = length_penalty;
  options.allow_unknown = allow_unknown;
  if (allowed) {
    options.allowed = span_of(allowed);
    options.mask_steps = static_cast<std::int64_t>(allowed->shape(0));
    options.mask_inputs = static_cast<std::int64_t>(allowed->shape(1));
  }
  return {self.calls->run([&] { return self.model.beam(start, options); }), self.calls.get()};
}

nb::tuple read(Self& self, const std::vector<std::string>& texts,
               const std::optional<FrameArray>& features) {
  const FeatureVectors vectors = vectors_of(features);
  return states_of(self.calls->run([&] { return self.model.read(texts, vectors); }));
}

}  // namespace

void bind_beam(nb::module_& module, nb::class_<Loaded<LanguageModel>>& model) {
  nb::class_<BoundBeam> bound(module, "Beam");
  bound.def_prop_ro("inputs", [](const BoundBeam& self) { return self.beam.inputs(); });
  bound.def_prop_ro("beam", [](const BoundBeam& self) { return self.beam.beam(); });
  bound.def_prop_ro("steps", [](const BoundBeam& self) { return self.beam.steps(); });
  bound.def("tokens", [](const BoundBeam& self) { return choices(self, &Beam::tokens); });
  bound.def("parents", [](const BoundBeam& self) { return choices(self, &Beam::parents); });
  bound.def("scores", [](const BoundBeam& self) { return choices(self, &Beam::scores); });
  bound.def("finished", finished);
  bound.def("states", [](const BoundBeam& self) {
    return states_of(self.calls->run([&] { return self.beam.states(); }));
  });
  bound.def("device_choices", [](const BoundBeam& self) {
    return self.calls->run([&] {
      return std::vector<std::uintptr_t>{
          reinterpret_cast<std::uintptr_t>(self.beam.device_tokens()),
          reinterpret_cast<std::uintptr_t>(self.beam.device_parents()),
          reinterpret_cast<std::uintptr_t>(self.beam.device_scores())};
    });
  });
  model.def("beam", beam, nb::keep_alive<0, 1>(), "inputs"_a, "every_beam"_a, "h"_a, "c"_a,
            "on_device"_a, "tokens"_a.none(), "scores"_a.none(), "steps"_a, "beam"_a, "nbest"_a,
            "min_length"_a, "length_penalty"_a, "allow_unknown"_a, "allowed"_a.none());
  model.def("read", read, "texts"_a, "features"_a.none());
  model.def("vocabulary", [](const Self& self) { return to_texts(self.model.vocabulary()); });
  model.def_prop_ro("state_shape", [](const Self& self) {
    const StateShape shape = self.model.state_shape();
    return nb::make_tuple(shape.layers, shape.width, shape.hidden);
  });
}

}  // namespace sluice::python
