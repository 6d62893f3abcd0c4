#pragma once

#include <cstdint>

#include "interchange/assemble.h"
#include "interchange/source_model.h"
#include "sluice/check.h"

namespace sluice::api {

/// Runs the model that was made of a source on random sequences of several lengths, on the CPU in
/// float32, and compares each layer with the source's equations in double precision.
CheckReport check_conversion(const interchange::SourceModel& source,
                             const interchange::Assembled& made, std::uint64_t seed);

}  // namespace sluice::api
