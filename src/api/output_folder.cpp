#include "api/output_folder.h"

#include <filesystem>
#include <string_view>

#include "base/check.h"

namespace sluice::api {

namespace fs = std::filesystem;

namespace {

void prepare(const std::string& path, std::string_view advice) {
  std::error_code error;
  const bool is_there = fs::exists(path, error);
  if (error) {
    base::fail(ErrorCode::kIo, "'{}' can't be looked at: {}", path, error.message());
  }
  SLUICE_CHECK(!is_there, "'{}' is there already; {}", path, advice);
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // written with a slash behind it
  const fs::path parent = folder.parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  if (error) {
    base::fail(ErrorCode::kIo, "cannot make the folder '{}': {}", parent.native(), error.message());
  }
}

}  // namespace

void prepare_output_folder(const std::string& path) { prepare(path, "name a folder to be made"); }

void prepare_output_file(const std::string& path) { prepare(path, "name another file"); }

}  // namespace sluice::api
