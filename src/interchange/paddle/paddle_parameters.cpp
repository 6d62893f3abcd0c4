#include "interchange/paddle/paddle_parameters.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "interchange/source_model.h"
#include "io/formats/file_within.h"
#include "io/formats/paddle/paddle_tensor.h"

namespace sluice::interchange::paddle {
namespace {

namespace fs = std::filesystem;
using io::formats::PaddleVariable;

/// A parameter has few readers; each one's copy takes memory.
constexpr int kMostReads = 8;
/// A file's name has no more.
constexpr std::size_t kLongestName = 255;

/// The name of the only file beside the program; empty if there are others or none.
std::string only_file(const fs::path& folder) {
  std::string name;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().filename() == "__model__") continue;
    if (!name.empty()) return "";
    name = entry.path().filename();
  }
  return name;
}

fs::path file_of(const fs::path& folder, const std::string& name) {
  return io::formats::file_within(folder, name, fmt::format("'{}': a parameter", folder.native()));
}

}  // namespace

Parameters::Parameters(fs::path folder, const io::formats::PaddleBlock& block,
                       const ReadOptions& options)
    : folder_(std::move(folder)), combined_(options.find("params").value_or("")) {
  bool are_apart = true;
  for (const PaddleVariable& variable : block.variables) {
    if (!variable.is_persistable || variable.type != PaddleVariable::kLodTensor) continue;
    if (variable.name.size() > kLongestName) {
      base::fail(ErrorCode::kFormat, "'{}': a parameter's name has {} bytes; at most {} may be",
                 folder_.native(), variable.name.size(), kLongestName);
    }
    sizes_[variable.name] = variable.sizes;
    std::error_code error;
    are_apart = are_apart && fs::exists(folder_ / variable.name, error);
  }
  if (combined_.empty() && !are_apart) combined_ = only_file(folder_);
  if (combined_.empty()) return;
  // Paddle writes them in the order of their names, without the names.
  const io::ByteSource source(io::File::open(file_of(folder_, combined_)));
  std::uint64_t offset = 0;
  for (const auto& [name, sizes] : sizes_) {
    const io::formats::PaddleTensor tensor = io::formats::find_paddle_tensor(source, offset);
    offsets_[name] = std::exchange(offset, tensor.end);
  }
  if (offset != source.size()) {
    base::fail(ErrorCode::kFormat,
               "'{}' has {} bytes, of which the program's {} parameters take {}",
               source.path().native(), source.size(), sizes_.size(), offset);
  }
}

std::string Parameters::describe() const {
  return combined_.empty() ? "in a file for each" : fmt::format("in the file '{}'", combined_);
}

const std::vector<std::int64_t>& Parameters::sizes(std::string_view name) const {
  const auto found = sizes_.find(name);
  if (found == sizes_.end()) {
    base::fail(ErrorCode::kFormat, "'{}': '{}' is no parameter of the program", folder_.native(),
               name);
  }
  return found->second;
}

io::HostTensor Parameters::read(const std::string& name) {
  if (++reads_[name] > kMostReads) {
    base::fail(ErrorCode::kUnsupported, "'{}': more than {} operations read the parameter '{}'",
               folder_.native(), kMostReads, name);
  }
  const std::vector<std::int64_t>& sizes = this->sizes(name);
  const fs::path file = file_of(folder_, combined_.empty() ? name : combined_);
  const io::ByteSource source(io::File::open(file));
  const io::formats::PaddleTensor tensor =
      io::formats::find_paddle_tensor(source, combined_.empty() ? 0 : offsets_.at(name));
  if (tensor.sizes != sizes || (combined_.empty() && tensor.end != source.size())) {
    base::fail(ErrorCode::kFormat,
               "'{}' holds another tensor than the parameter '{}' that the program describes",
               file.native(), name);
  }
  return to_float32(io::formats::read_paddle_tensor(source, tensor));
}

}  // namespace sluice::interchange::paddle
