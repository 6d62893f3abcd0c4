#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <sluice/model_info.h>
#include <sluice/profile.h>
#include <sluice/segmenters.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "calls.h"

namespace sluice::python {

using namespace nanobind::literals;

/// Where a model runs, without the handlers, which `calls` has.
struct Place {
  std::string device, precision;
  std::int64_t plan_cache_bytes;

  Placement with(Calls& calls) const {
    return {device, precision, calls.warnings(), calls.interrupt(), plan_cache_bytes};
  }
};

/// A model of the C++ API and the handlers that it was given.
template <typename Model>
struct Loaded {
  std::unique_ptr<Calls> calls;
  Model model;
};

template <typename Model, typename... More>
Loaded<Model> load(const std::string& path, const Place& place, const More&... more) {
  auto calls = std::make_unique<Calls>();
  Model model = calls->run([&] { return Model::load(path, place.with(*calls), more...); });
  return {std::move(calls), std::move(model)};
}

/// A function of Python that runs `work(model, arguments...)` without the GIL; `work` and its
/// arguments must have nothing of Python's.
template <typename Model, typename Result, typename... Arguments>
auto call(Result (Model::*member)(Arguments...)) {
  return [member](Loaded<Model>& self, std::remove_cvref_t<Arguments>... arguments) {
    return self.calls->run([&] { return (self.model.*member)(arguments...); });
  };
}

nb::object to_python(const ModelInfo& info);
nb::object to_python(const PlanCacheUse& use);
/// Text of the library's, whose bytes that are not UTF-8 become U+FFFD.
nb::str to_text(const std::string& text);

/// What all kinds of models have.
template <typename Model>
nb::class_<Loaded<Model>> bind_common(nb::module_& module, const char* name) {
  nb::class_<Loaded<Model>> bound(module, name);
  bound.def("info", [](Loaded<Model>& self) {
    return to_python(self.calls->run([&] { return self.model.info(); }));
  });
  bound.def("plan_cache",
            [](const Loaded<Model>& self) { return to_python(self.model.plan_cache()); });
  bound.def("clear_plan_cache", call(&Model::clear_plan_cache));
  bound.def(
      "begin_profile",
      [](Loaded<Model>& self, const std::string& trace, bool breakdown, std::int64_t first_step,
         std::int64_t last_step) {
        const ProfileRequest request{trace, breakdown, first_step, last_step};
        self.calls->run([&] { self.model.begin_profile(request); });
      },
      "trace"_a, "breakdown"_a, "first_step"_a, "last_step"_a);
  bound.def("end_profile", call(&Model::end_profile));
  return bound;
}

/// What models have that take sequences in parts.
template <typename Model>
void bind_parts(nb::class_<Loaded<Model>>& bound, void (Model::*begin)()) {
  bound.def("refuse_parts",
            [](const Loaded<Model>& self) { return to_text(self.model.refuse_parts()); });
  bound.def("begin", call(begin));
  bound.def("state", [](Loaded<Model>& self) {
    const std::string state = self.calls->run([&] { return self.model.state(); });
    return nb::bytes(state.data(), state.size());
  });
  bound.def(
      "set_state",
      [](Loaded<Model>& self, const nb::bytes& state) {
        const std::string_view bytes(state.c_str(), state.size());
        self.calls->run([&] { self.model.set_state(bytes); });
      },
      "state"_a);
  bound.def("save_state", call(&Model::save_state), "path"_a);
  bound.def("load_state", call(&Model::load_state), "path"_a);
}

void bind_sequence_model(nb::module_& module);
void bind_language_model(nb::module_& module);
void bind_tagger(nb::module_& module);
void bind_check(nb::module_& module);
void bind_classifier(nb::module_& module);
void bind_feature_model(nb::module_& module);
void bind_train(nb::module_& module);
void bind_convert(nb::module_& module);

}  // namespace sluice::python
