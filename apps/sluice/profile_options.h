#pragma once

#include <CLI/CLI.hpp>

#include "sluice/profile.h"

namespace sluice::app {

/// --trace, --trace-steps and --breakdown. `steps` says what a step is and which are recorded by
/// default: "training steps (default: ...)".
void add_profile_options(CLI::App& command, ProfileRequest& request, const std::string& steps);

}  // namespace sluice::app
