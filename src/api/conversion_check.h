#pragma once

#include <cstdint>
#include <vector>

#include "interchange/assemble.h"
#include "interchange/source_model.h"
#include "sluice/check.h"

namespace sluice::api {

/// Runs the model that was made of a source on random sequences of several lengths, on the CPU in
/// float32, and compares each layer with the source's equations in double precision.
CheckReport check_conversion(const interchange::SourceModel& source,
                             const interchange::Assembled& made, std::uint64_t seed);

/// The same of a file of another program that was written and read back, `written`, in double
/// precision on both sides. Its ids are those of the model `made`, and `pairs` are its layers that
/// correspond to made.pairs, in the same order.
CheckReport check_written(const interchange::SourceModel& source,
                          const interchange::Assembled& made,
                          const interchange::SourceModel& written,
                          const std::vector<interchange::Assembled::Pair>& pairs,
                          std::uint64_t seed);

}  // namespace sluice::api
