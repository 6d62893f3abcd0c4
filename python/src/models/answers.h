#pragma once

#include <nanobind/nanobind.h>
#include <sluice/sequence_model.h>

#include <string>
#include <vector>

namespace sluice::python {

namespace nb = nanobind;

nb::list to_texts(const std::vector<std::string>& texts);
/// (text, score, normalised_score, pieces, attention, ended); attention is None if there is none.
nb::tuple to_python(const Hypothesis& hypothesis);
nb::list to_python(const std::vector<Hypothesis>& hypotheses);
/// (log_probability, tokens) of each.
nb::list to_python(const std::vector<Scored>& scores);

}  // namespace sluice::python
