#include "io/formats/tensorflow/tensorflow_checkpoint.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/suggest.h"
#include "io/formats/tensorflow/sorted_table.h"
#include "io/formats/tensorflow/tensor_bundle.h"
#include "io/formats/tensorflow/tensor_slices_file.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

using base::fail;

constexpr std::string_view kIndexSuffix = ".index";

/// The header under the empty key begins with a number in bundles, with a message in V1 files.
enum class Revision { kV1, kBundle };

Revision revision_of(const SortedTable& table, std::string_view header) {
  ProtoReader reader(header, table.path().native(), "checkpoint's header");
  while (reader.next()) {
    if (reader.tag() == 1) return reader.is_varint() ? Revision::kBundle : Revision::kV1;
  }
  reader.refuse("says neither its number of shards nor its slices; is it no checkpoint?");
}

std::string header_of(const SortedTable& table) {
  std::optional<std::string> header = table.find("");
  if (!header) {
    fail(ErrorCode::kFormat, "'{}' is a sorted table without a header, so it is no checkpoint",
         table.path().native());
  }
  return *std::move(header);
}

/// Opens `<prefix>.data-00000-of-00002` and so on.
TensorflowCheckpoint::OpenShard shards_of(const std::filesystem::path& index) {
  return [index](std::uint32_t shard, std::uint32_t shards) {
    const std::string& name = index.native();
    if (!name.ends_with(kIndexSuffix)) {
      fail(ErrorCode::kFormat,
           "'{}' is a checkpoint's index, but its name does not end with '{}', so the names of its "
           "data files are not known; give it its name back",
           name, kIndexSuffix);
    }
    const std::string prefix = name.substr(0, name.size() - kIndexSuffix.size());
    return ByteSource(File::open(fmt::format("{}.data-{:05}-of-{:05}", prefix, shard, shards)));
  };
}

}  // namespace

TensorflowCheckpoint TensorflowCheckpoint::open(const std::filesystem::path& path) {
  std::filesystem::path file = path;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) file += kIndexSuffix;
  if (!std::filesystem::exists(file, ignored)) {
    fail(ErrorCode::kNotFound, "there is neither a checkpoint file '{}' nor an index '{}'",
         path.native(), file.native());
  }
  return open(ByteSource(File::open(file)), shards_of(file));
}

TensorflowCheckpoint TensorflowCheckpoint::open(ByteSource source, OpenShard open_shard) {
  SortedTable table = SortedTable::open(std::move(source));
  TensorflowCheckpoint checkpoint;
  checkpoint.path_ = table.path();
  const std::string header = header_of(table);
  checkpoint.is_v1_ = revision_of(table, header) == Revision::kV1;
  if (checkpoint.is_v1_) {
    checkpoint.reader_ = std::make_shared<TensorSlicesFile>(std::move(table), header);
  } else {
    checkpoint.reader_ =
        std::make_shared<TensorBundle>(std::move(table), header, std::move(open_shard));
  }
  return checkpoint;
}

const CheckpointTensor* TensorflowCheckpoint::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors().begin(), tensors().end(), name,
      [](const CheckpointTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found == tensors().end() || found->name != name ? nullptr : &*found;
}

std::size_t TensorflowCheckpoint::index_of(std::string_view name) const {
  const CheckpointTensor* found = find(name);
  if (found != nullptr) return static_cast<std::size_t>(found - tensors().data());
  std::vector<std::string_view> known;
  for (const CheckpointTensor& tensor : tensors()) known.push_back(tensor.name);
  fail(ErrorCode::kNotFound, "'{}' has no variable {}{}", path_.native(), quote_name(name),
       base::did_you_mean(name, known));
}

HostTensor TensorflowCheckpoint::read(std::string_view name) const {
  return reader_->read(index_of(name));
}

std::vector<std::string> TensorflowCheckpoint::read_strings(std::string_view name) const {
  return reader_->read_strings(index_of(name));
}

}  // namespace sluice::io::formats
