#pragma once

#include <string>

#include "sluice/train.h"

namespace sluice {

/// Writes what `train` would see of its data, as token ids: `<directory>/train.ids` and, if there
/// are examples to validate on, `valid.ids`. A header line `# vocabulary SOURCE TARGET` (ids of
/// each side), then one example a line: source ids, TAB, target ids, decimal with single spaces
/// between, in the order of the data and without the marks of beginning and end. For other programs
/// that are to train on the same tokens. Throws Error.
void export_ids(const TrainRequest& request, const std::string& directory);

}  // namespace sluice
