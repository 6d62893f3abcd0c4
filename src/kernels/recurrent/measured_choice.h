#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kernels/recurrent/recurrent.h"

namespace sluice::kernels::recurrent {

/// What a choice depends on: "lstm layers=1 ... on NVIDIA H200".
std::string problem_of(const Context& context, const Descriptor& descriptor);

/// The least of what some calls of `run` return, for whatever disturbs a run only makes it longer;
/// the first calls don't count, and what is far from `bound` is soon given up.
double least_milliseconds(const std::function<double()>& run, double bound);

/// The candidate that the context's Tuning holds for this problem. If it holds none, every
/// candidate that accepts, peers aside, is run at full capacity on random numbers, and the fastest
/// is noted, or, if there is no memory to measure in, the one by rule; the context's stream is
/// waited for. Nothing, and nothing noted, if fewer than two accept, or if what was noted is not
/// known or declines here.
std::optional<Choice> measured_choice(const Context& context, const Descriptor& descriptor);

}  // namespace sluice::kernels::recurrent
