#include "io/formats/file_within.h"

#include <algorithm>

#include "base/check.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {

using base::fail;
namespace fs = std::filesystem;

fs::path file_within(const fs::path& parent, const std::string& name, const std::string& what) {
  const fs::path relative(name);
  const bool goes_up = std::find(relative.begin(), relative.end(), "..") != relative.end();
  const bool has_zero = name.find('\0') != std::string::npos;
  if (name.empty() || has_zero || relative.is_absolute() || goes_up) {
    fail(ErrorCode::kFormat,
         "{} has its values in {}, which is no plain path within the model's folder", what,
         quote_name(name));
  }
  std::error_code error;
  const fs::path folder = fs::canonical(parent.empty() ? "." : parent, error);
  const fs::path file = error ? fs::path() : fs::canonical(folder / relative, error);
  if (error) {
    fail(ErrorCode::kNotFound,
         "{} has its values in {}, which cannot be found beside the model: {}", what,
         quote_name(name), error.message());
  }
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  if (end != folder.end()) {
    fail(ErrorCode::kFormat, "{} has its values in {}, which leads out of the model's folder", what,
         quote_name(name));
  }
  return file;
}

}  // namespace sluice::io::formats
