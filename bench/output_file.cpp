#include "bench/output_file.h"

#include <filesystem>
#include <fstream>

#include "base/check.h"

namespace sluice::bench {

void require_writable(const std::string& path) {
  const bool is_new = !std::filesystem::exists(std::filesystem::symlink_status(path));
  if (!std::ofstream(path, std::ios::app)) base::fail(ErrorCode::kIo, "cannot write {}", path);
  if (is_new) std::filesystem::remove(path);
}

void write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) base::fail(ErrorCode::kIo, "cannot write {}", path);
}

}  // namespace sluice::bench
