#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace sluice::bench {

/// Adds to a result where and by what it was measured: threads, processor, commit and, on a GPU,
/// the driver, the CUDA it runs, CUDA's runtime and the versions of NVIDIA's libraries that this
/// process has opened.
void add_machine(nlohmann::ordered_json& row, std::string_view device);

}  // namespace sluice::bench
