#pragma once

namespace sluice::bench {

/// What was built, so that a figure can be traced: what `git describe` says of the source, with
/// "-dirty" behind it if it holds what is not committed, or "unknown" outside git.
const char* commit();

}  // namespace sluice::bench
