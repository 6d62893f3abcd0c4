#pragma once

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>
#include <sluice/language_model.h>

#include "answers.h"
#include "arrays.h"
#include "loaded.h"

namespace sluice::python {

/// [vectors, features]; None: none.
FeatureVectors vectors_of(const std::optional<FrameArray>& array);

/// LanguageModel.beam, .read and what they return.
void bind_beam(nb::module_& module, nb::class_<Loaded<LanguageModel>>& model);

}  // namespace sluice::python
