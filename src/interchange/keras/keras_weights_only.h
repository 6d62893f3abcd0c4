#pragma once

#include <string>

#include "interchange/read_options.h"
#include "interchange/source_model.h"
#include "io/formats/hdf5/hdf5.h"

namespace sluice::interchange::keras {

/// Reads the recurrent layers of a file of weights without a configuration. Throws
/// ErrorCode::kUnsupported, saying which answers are needed.
void read_weights_only(io::formats::Hdf5File& file, const std::string& version,
                       const ReadOptions& options, SourceModel& model);

}  // namespace sluice::interchange::keras
