#pragma once

#include <string>

namespace sluice::api {

/// To be called before the work whose result is written there: makes the folder's parents. Throws
/// ErrorCode::kInvalidArgument if there is such a folder or file already, ErrorCode::kIo if it
/// can't be looked at or its parents can't be made.
void prepare_output_folder(const std::string& path);

/// The same of a file.
void prepare_output_file(const std::string& path);

}  // namespace sluice::api
