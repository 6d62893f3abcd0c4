#include "training/example_store.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace sluice::training {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPiece = std::size_t{1} << 20;
/// The index ends with the length of the line of text before it.
constexpr std::size_t kLongestText = std::size_t{1} << 20;

std::filesystem::path with(const std::filesystem::path& path, const char* extension) {
  return path.string() + extension;
}

Json json_of(const data::CorpusReport& report) {
  return {report.kept,          report.too_long,       report.empty,         report.source_tokens,
          report.target_tokens, report.source_unknown, report.target_unknown};
}

data::CorpusReport report_of(const Json& json) {
  const auto numbers = json.get<std::array<std::int64_t, 7>>();
  return {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], {}};
}

/// The line of text at the end of an index; nothing if there is none.
std::optional<Json> text_of(const io::File& index) {
  const std::uint64_t size = index.size();
  std::uint64_t length = 0;
  if (size < sizeof length) return std::nullopt;
  index.read_at(size - sizeof length, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kLongestText || length > size - sizeof length) return std::nullopt;
  std::string text(length, '\0');
  index.read_at(size - sizeof length - length, std::as_writable_bytes(std::span(text)));
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

std::string end_of_index(const std::string& key, std::int64_t examples, std::int64_t ids,
                         const data::CorpusReport& report) {
  std::string text =
      Json{{"key", key}, {"examples", examples}, {"ids", ids}, {"report", json_of(report)}}.dump();
  const std::uint64_t length = text.size();
  text.append(reinterpret_cast<const char*>(&length), sizeof length);
  return text;
}

}  // namespace

ExampleStore::ExampleStore(io::File ids, io::File index, std::int64_t size,
                           data::CorpusReport report)
    : ids_file_(std::move(ids)),
      index_file_(std::move(index)),
      size_(size),
      ids_(static_cast<std::int64_t>(ids_file_.size() / sizeof(std::int32_t))),
      report_(std::move(report)) {}

std::optional<ExampleStore> ExampleStore::open(const std::filesystem::path& path,
                                               const std::string& key) {
  std::error_code ignored;
  if (!std::filesystem::exists(with(path, ".ids"), ignored) ||
      !std::filesystem::exists(with(path, ".index"), ignored)) {
    return std::nullopt;
  }
  io::File ids = io::File::open(with(path, ".ids"));
  io::File index = io::File::open(with(path, ".index"));
  const std::optional<Json> text = text_of(index);
  if (!text) return std::nullopt;
  try {
    const auto examples = text->at("examples").get<std::int64_t>();
    if (examples < 0 || static_cast<std::uint64_t>(examples) > index.size()) return std::nullopt;
    const std::uint64_t entries = static_cast<std::uint64_t>(examples) * sizeof(Entry);
    const bool whole = ids.size() == text->at("ids").get<std::uint64_t>() * sizeof(std::int32_t) &&
                       index.size() == entries + text->dump().size() + sizeof(std::uint64_t);
    if (!whole || text->at("key") != key) return std::nullopt;
    return ExampleStore(std::move(ids), std::move(index), examples, report_of(text->at("report")));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

ExampleStore::Entry ExampleStore::checked(const Entry& entry, std::int64_t example) const {
  const bool sound = entry.begin >= 0 && entry.source >= 0 && entry.target >= 0 &&
                     entry.begin <= ids_ &&
                     std::int64_t{entry.source} + entry.target <= ids_ - entry.begin;
  if (!sound) {
    base::fail(ErrorCode::kFormat,
               "'{}' is damaged at example {}: remove it, and it is prepared anew",
               index_file_.path().string(), example);
  }
  return entry;
}

template <typename UseEntry>
void ExampleStore::for_each_entry(const UseEntry& use) const {
  std::vector<Entry> entries(kPiece / sizeof(Entry));
  for (std::int64_t example = 0; example < size_;) {
    entries.resize(std::min(entries.size(), static_cast<std::size_t>(size_ - example)));
    index_file_.read_at(static_cast<std::uint64_t>(example) * sizeof(Entry),
                        std::as_writable_bytes(std::span(entries)));
    for (const Entry& entry : entries) {
      use(example, checked(entry, example));
      ++example;
    }
  }
}

std::vector<data::ExampleLengths> ExampleStore::lengths() const {
  std::vector<data::ExampleLengths> lengths;
  lengths.reserve(static_cast<std::size_t>(size_));
  for_each_entry([&](std::int64_t, const Entry& entry) {
    lengths.push_back({entry.source, entry.target});
  });
  return lengths;
}

void ExampleStore::for_each(const Use& use) const {
  std::vector<std::int32_t> piece;
  std::int64_t first = 0;  // id of the piece
  for_each_entry([&](std::int64_t example, const Entry& entry) {
    const std::int64_t count = std::int64_t{entry.source} + entry.target;
    if (entry.begin < first || entry.begin + count > first + std::ssize(piece)) {
      // An example that is larger than a piece is one by itself.
      constexpr auto kPieceIds = static_cast<std::int64_t>(kPiece / sizeof(std::int32_t));
      first = entry.begin;
      piece.resize(static_cast<std::size_t>(std::min(std::max(count, kPieceIds), ids_ - first)));
      read_ids(first, piece);
    }
    const auto ids = std::span<const std::int32_t>(piece).subspan(
        static_cast<std::size_t>(entry.begin - first), static_cast<std::size_t>(count));
    const auto source = static_cast<std::size_t>(entry.source);
    use(example, ids.first(source), ids.subspan(source));
  });
}

ExampleIds ExampleStore::read(std::int64_t example) const {
  SLUICE_CHECK(example >= 0 && example < size_, "there is no example {}; there are {}", example,
               size_);
  Entry entry{};
  index_file_.read_at(static_cast<std::uint64_t>(example) * sizeof(Entry),
                      std::as_writable_bytes(std::span(&entry, 1)));
  checked(entry, example);
  const auto source = static_cast<std::size_t>(entry.source);
  ExampleIds ids{std::vector<std::int32_t>(source + static_cast<std::size_t>(entry.target)), {}};
  read_ids(entry.begin, ids.source);  // both sides, which stand side by side
  ids.target.assign(ids.source.begin() + entry.source, ids.source.end());
  ids.source.resize(source);
  return ids;
}

void ExampleStore::read_ids(std::int64_t begin, std::span<std::int32_t> out) const {
  ids_file_.read_at(static_cast<std::uint64_t>(begin) * sizeof(std::int32_t),
                    std::as_writable_bytes(out));
}

void ExampleStoreWriter::Buffered::write(std::span<const std::byte> bytes) {
  buffer.insert(buffer.end(), bytes.begin(), bytes.end());
  if (buffer.size() < kPiece) return;
  file.write(buffer);
  buffer.clear();
}

void ExampleStoreWriter::Buffered::commit() {
  file.write(buffer);
  buffer.clear();
  file.commit();
}

ExampleStoreWriter::ExampleStoreWriter(const std::filesystem::path& path)
    : path_of_index_(with(path, ".index")), ids_(with(path, ".ids")), index_(path_of_index_) {}

void ExampleStoreWriter::add(const ExampleIds& example) {
  const ExampleStore::Entry entry{written_, static_cast<std::int32_t>(example.source.size()),
                                  static_cast<std::int32_t>(example.target.size())};
  index_.write(std::as_bytes(std::span(&entry, 1)));
  ids_.write(std::as_bytes(std::span(example.source)));
  ids_.write(std::as_bytes(std::span(example.target)));
  written_ += std::ssize(example.source) + std::ssize(example.target);
}

// The index last: without it there is no store.
void ExampleStoreWriter::finish(const std::string& key, const data::CorpusReport& report) {
  const std::string end = end_of_index(key, report.kept, written_, report);
  index_.write(std::as_bytes(std::span(end)));
  // One from before would tell of other ids, should this be the last thing that happens.
  std::error_code none;
  std::filesystem::remove(path_of_index_, none);
  ids_.commit();
  index_.commit();
}

}  // namespace sluice::training
