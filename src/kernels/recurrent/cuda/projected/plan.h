#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/recurrent/recurrent.h"

/// The candidate that runs a stack of projected layers as one launch.
namespace sluice::kernels::recurrent::cuda::projected {

inline constexpr std::string_view kName = "persistent-projected";

std::optional<std::string> refuse(const Descriptor& descriptor, const runtime::Device& device);
/// The reason if `graph`, with its products, measured faster, or nothing.
std::optional<std::string> slower_than_graph(const Descriptor& descriptor);
std::unique_ptr<Plan> make_plan(const Descriptor& descriptor, const runtime::Device& device);

}  // namespace sluice::kernels::recurrent::cuda::projected
