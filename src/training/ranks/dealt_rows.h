#pragma once

#include <cstdint>

#include "data/examples.h"

namespace sluice::training {

/// The rows of a batch that are one rank's: rank, rank + ranks, and so on. It keeps the times of
/// the whole batch. Ranks with a row less get a row of length 0, so that all have the same extent.
/// `carries`: `source` names rows of the batch before (data::StretchCorpus), which were dealt
/// likewise.
data::Batch dealt_rows(const data::Batch& whole, std::int64_t rank, std::int64_t ranks,
                       bool carries);

}  // namespace sluice::training
