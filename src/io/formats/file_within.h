#pragma once

#include <filesystem>
#include <string>

namespace sluice::io::formats {

/// The path, with every link followed, of a file that an untrusted model names. Throws
/// ErrorCode::kFormat for a path out of `folder`, and kNotFound if there is no such file; `what`
/// describes what the file is for: "'m.onnx': tensor 'w'".
std::filesystem::path file_within(const std::filesystem::path& folder, const std::string& name,
                                  const std::string& what);

}  // namespace sluice::io::formats
