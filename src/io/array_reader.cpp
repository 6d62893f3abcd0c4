#include "io/array_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "io/name_of_input.h"
#include "io/text_file.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;
using base::fail;

/// Numbers of a piece, unless one sequence has more.
constexpr std::int64_t kPiece = std::int64_t{4} << 20;

std::vector<fs::path> arrays_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".npy") paths.push_back(entry.path());
  }
  if (paths.empty()) {
    fail(ErrorCode::kNotFound, "the folder '{}' has no .npy files", folder.string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// What an array may be called, for it names files.
void check_name(const fs::path& path, std::string_view name) {
  if (!name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
      name.find('\0') == std::string_view::npos) {
    return;
  }
  fail(ErrorCode::kFormat, "'{}' has an array of the name '{}', which no file can have",
       path.string(), name.substr(0, 200));
}

}  // namespace

ArrayReader::ArrayReader(fs::path path, std::size_t axes) : path_(std::move(path)), axes_(axes) {
  list();
}

void ArrayReader::list() {
  std::error_code ignored;
  if (fs::is_directory(path_, ignored)) {
    for (const fs::path& file : arrays_in(path_)) entries_.push_back({file.stem().string(), file});
    return;
  }
  if (path_.extension() != ".npz") {
    entries_.push_back({path_.stem().string(), path_});
    return;
  }
  archive_ = std::make_unique<ZipArchive>(path_);
  for (const ZipArchive::Member& member : archive_->members()) {
    std::string_view name = member.name;
    if (name.ends_with(".npy")) name.remove_suffix(4);
    check_name(path_, name);
    entries_.push_back({std::string(name), {}, &member});
  }
  if (entries_.empty()) fail(ErrorCode::kNotFound, "'{}' has no arrays", path_.string());
}

std::vector<std::string> ArrayReader::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

void ArrayReader::follow(std::span<const std::string> names) {
  const auto place_of = [&](const Entry& entry) {
    return std::find(names.begin(), names.end(), entry.name) - names.begin();
  };
  std::vector<std::pair<std::ptrdiff_t, Entry>> placed;
  for (Entry& entry : entries_) placed.emplace_back(place_of(entry), std::move(entry));
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  entries_.clear();
  for (auto& [place, entry] : placed) entries_.push_back(std::move(entry));
}

void ArrayReader::open(const Entry& entry) {
  if (entry.member == nullptr) {
    where_ = name_of_input(entry.file);
    const auto file = std::make_shared<TextFile>(entry.file);
    reader_.emplace([file](std::span<char> out) { return file->read(out); }, where_);
  } else {
    where_ = fmt::format("'{}' array '{}'", path_.string(), entry.name.substr(0, 200));
    archive_->open(*entry.member);
    // Its own address may change, the archive's doesn't.
    reader_.emplace([archive = archive_.get()](std::span<char> out) { return archive->read(out); },
                    where_);
  }
  first_ = 0;
}

std::optional<ArrayPiece> ArrayReader::next() {
  if (!reader_) {
    if (next_entry_ == entries_.size()) return std::nullopt;
    open(entries_[next_entry_++]);
  }
  const std::vector<std::int64_t>& shape = reader_->shape();
  // An array that holds nothing has no sequences to count, whatever its header says.
  const bool several = !shape.empty() && shape.size() - 1 == axes_ && reader_->element_count() > 0;
  const std::int64_t sequences = several ? shape[0] : 1;
  const std::int64_t of_one = reader_->element_count() / sequences;
  const std::int64_t count = std::min(
      sequences - first_, std::max(kPiece / std::max<std::int64_t>(of_one, 1), std::int64_t{1}));
  ArrayPiece piece{where_,
                   entries_[next_entry_ - 1].name,
                   sequences,
                   first_,
                   {shape, reader_->is_integer(), {}, {}}};
  if (several) piece.array.shape[0] = count;
  reader_->read(count * of_one, piece.array);
  first_ += count;
  if (first_ == sequences) reader_.reset();
  return piece;
}

}  // namespace sluice::io
