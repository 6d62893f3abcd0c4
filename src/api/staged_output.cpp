#include "api/staged_output.h"

#include <unistd.h>

#include <string>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "io/file.h"

namespace sluice::api {

namespace fs = std::filesystem;

StagedOutput::StagedOutput(const fs::path& target) {
  fs::path name = target.lexically_normal();
  if (!name.has_filename()) name = name.parent_path();  // written with a slash behind it
  const fs::path parent = name.has_parent_path() ? name.parent_path() : fs::path(".");
  folder_ = parent / ("." + name.filename().native() + ".sluice-" + std::to_string(::getpid()));
  path_ = folder_ / name.filename();
  std::error_code error;
  if (!fs::create_directory(folder_, error)) {
    base::fail(ErrorCode::kIo, "cannot make the folder '{}': {}", folder_.native(),
               error ? error.message() : "it is there already");
  }
}

StagedOutput::~StagedOutput() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void StagedOutput::commit() {
  std::vector<fs::path> made;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    // The target comes last, which for a checkpoint of TensorFlow is its index: a program that
    // finds it finds the files beside it.
    const bool is_target =
        entry.path() == path_ || entry.path() == fs::path(path_.native() + ".index");
    made.insert(is_target ? made.end() : made.begin(), entry.path());
  }
  const fs::path parent = folder_.parent_path();
  for (const fs::path& path : made) {
    std::error_code error;
    fs::rename(path, parent / path.filename(), error);
    if (error) {
      base::fail(ErrorCode::kIo, "cannot move '{}' to '{}': {}", path.native(),
                 (parent / path.filename()).native(), error.message());
    }
  }
  io::sync_directory(parent);
}

}  // namespace sluice::api
