#pragma once

#include "unit/support/temporary_folder.h"

namespace sluice::io {

using sluice::testing::error_of;
using sluice::testing::TemporaryFolder;

}  // namespace sluice::io
