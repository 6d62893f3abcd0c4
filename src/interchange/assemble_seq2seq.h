#pragma once

#include "interchange/assemble.h"

namespace sluice::interchange {

/// assemble() of a source with a decoder: a seq2seq without attention.
Assembled assemble_seq2seq(SourceModel& source, const AssembleOptions& options);

}  // namespace sluice::interchange
