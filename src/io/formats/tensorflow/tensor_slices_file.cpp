#include "io/formats/tensorflow/tensor_slices_file.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "io/formats/tensorflow/tensorflow_types.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

using base::fail;

constexpr std::int32_t kNewestVersion = 1;

/// The field of a message that holds another; empty if it is absent.
std::string_view field_bytes(ProtoReader reader, std::uint32_t field) {
  std::string_view bytes;
  while (reader.next()) {
    if (reader.tag() == field) bytes = reader.bytes();
  }
  return bytes;
}

}  // namespace

TensorSlicesFile::TensorSlicesFile(SortedTable table, std::string_view header)
    : table_(std::move(table)) {
  ProtoReader reader(header, table_.path().native(), "SavedTensorSlices");
  while (reader.next()) {
    if (reader.tag() == 1) read_meta(reader.message("SavedTensorSliceMeta"));
  }
  std::sort(saved_.begin(), saved_.end(),
            [](const Saved& a, const Saved& b) { return a.tensor.name < b.tensor.name; });
  tensors_.reserve(saved_.size());
  slices_.reserve(saved_.size());
  for (Saved& saved : std::exchange(saved_, {})) {
    if (!tensors_.empty() && tensors_.back().name == saved.tensor.name) {
      fail(ErrorCode::kFormat, "{} is listed twice", what(saved.tensor));
    }
    tensors_.push_back(std::move(saved.tensor));
    slices_.push_back(std::move(saved.slices));
  }
}

void TensorSlicesFile::read_meta(ProtoReader reader) {
  reserve_for(reader, 1, saved_);
  while (reader.next()) {
    if (reader.tag() == 1) saved_.push_back(read_saved(reader.message("SavedSliceMeta")));
    if (reader.tag() != 2) continue;
    ProtoReader version = reader.message("VersionDef");
    while (version.next()) {
      if (version.tag() == 2 && version.int32() > kNewestVersion) {
        version.refuse_unsupported("asks for newer readers than this, which knows version {}",
                                   kNewestVersion);
      }
    }
  }
}

TensorSlicesFile::Saved TensorSlicesFile::read_saved(ProtoReader reader) const {
  Saved saved;
  std::int32_t type = 0;
  reserve_for(reader, 4, saved.slices);
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        saved.tensor.name = reader.text();
        break;
      case 2:
        saved.tensor.sizes = read_tensorflow_shape(reader.message("TensorShapeProto")).sizes;
        break;
      case 3:
        type = reader.int32();
        break;
      case 4:
        saved.slices.push_back(read_tensor_slice(reader.message("TensorSliceProto")));
    }
  }
  saved.tensor.type = find_type(tensorflow_types(), type);
  if (saved.tensor.name.empty()) reader.refuse("names no variable");
  if (saved.tensor.type == nullptr) {
    reader.refuse_unsupported("has the element type {}, which is unknown here", type);
  }
  const std::string description = what(saved.tensor);
  const std::uint64_t count = checked_count(saved.tensor.sizes, description);
  std::vector<TensorSlice> resolved;
  resolved.reserve(saved.slices.size());
  for (const TensorSlice& slice : saved.slices) {
    resolved.push_back(resolve_slice(slice, saved.tensor.sizes, description));
  }
  check_slice_counts(resolved, count, description);
  saved.tensor.is_partitioned = saved.slices.size() > 1;
  return saved;
}

std::string TensorSlicesFile::what(const CheckpointTensor& tensor) const {
  return fmt::format("'{}': variable {}", table_.path().native(), quote_name(tensor.name));
}

StoredTensor TensorSlicesFile::read_slice(const CheckpointTensor& tensor, const TensorSlice& slice,
                                          std::uint64_t count) const {
  const std::optional<std::string> value = table_.find(tensor_slice_key(tensor.name, slice));
  if (!value) {
    fail(ErrorCode::kFormat, "{} lacks one of its slices; save the checkpoint anew", what(tensor));
  }
  const std::string& file = table_.path().native();
  const std::string_view saved = field_bytes(ProtoReader(*value, file, "SavedTensorSlices"), 2);
  const std::string_view proto = field_bytes(ProtoReader(saved, file, "SavedSlice"), 3);
  StoredTensor stored{tensor.name, tensor.type, {static_cast<std::int64_t>(count)}, {}, {}};
  read_tensorflow_values(ProtoReader(proto, file, "TensorProto"), stored);
  check_values(stored, file, false);
  return stored;
}

/// Reads every slice before it makes the whole, whose size only the header promises.
HostTensor TensorSlicesFile::read(std::size_t index) const {
  const CheckpointTensor& tensor = tensors_[index];
  const std::string description = what(tensor);
  if (!tensor.type->dtype) {
    fail(ErrorCode::kUnsupported, "{} has the element type {}, which Sluice does not read",
         description, tensor.type->name);
  }
  std::vector<std::pair<TensorSlice, StoredTensor>> parts;
  for (const TensorSlice& slice : slices_[index]) {
    TensorSlice resolved = resolve_slice(slice, tensor.sizes, description);
    const std::uint64_t count = slice_count(resolved);
    if (count == 0) continue;
    StoredTensor part = read_slice(tensor, slice, count);
    parts.emplace_back(std::move(resolved), std::move(part));
  }
  HostTensor whole = HostTensor::make(*tensor.type->dtype, to_shape(tensor.sizes, description));
  SliceJoiner joiner(whole, description);
  for (const auto& [slice, part] : parts) joiner.add(slice, part.data);
  return whole;
}

std::vector<std::string> TensorSlicesFile::read_strings(std::size_t index) const {
  fail(ErrorCode::kUnsupported, "{} may hold strings, which are not read from a V1 checkpoint",
       what(tensors_[index]));
}

}  // namespace sluice::io::formats
