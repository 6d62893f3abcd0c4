#include "io/formats/torch/torch_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/suggest.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

constexpr std::uint64_t kExpansion = 8, kLeastBytes = 1 << 20;

/// Whether `text` stands at `offset`.
bool has_at(const ByteSource& source, std::uint64_t offset, std::string_view text) {
  std::string bytes(text.size(), '\0');
  if (source.size() < offset + text.size()) return false;
  source.read_at(offset, std::as_writable_bytes(std::span(bytes)));
  return bytes == text;
}

TorchFormat format_of(const ByteSource& source) {
  if (has_at(source, 0, "PK\x03\x04")) return TorchFormat::kZip;
  if (has_at(source, 0, "\x80\x02\x8a\x0a")) return TorchFormat::kLegacy;
  const std::string& name = source.path().native();
  if (has_at(source, 257, "ustar")) {
    base::fail(ErrorCode::kUnsupported,
               "'{}' is a tar file, the format of PyTorch 0.1; load it with PyTorch and save it "
               "again",
               name);
  }
  base::fail(ErrorCode::kFormat, "'{}' is no file of torch.save or torch.jit.save", name);
}

}  // namespace

TorchFile TorchFile::open(const std::filesystem::path& path) {
  ByteSource source(File::open(path));
  TorchFile file;
  file.path_ = path;
  file.format_ = format_of(source);
  const std::string where = "'" + path.native() + "'";
  if (file.format_ == TorchFormat::kLegacy) {
    auto legacy = std::make_unique<TorchLegacy>(std::move(source));
    const Pickle pickle = legacy->take_pickle();
    file.tree_ = torch_tree(pickle.root(), pickle.size(), where);
    file.storages_ = std::move(legacy);
  } else {
    auto zip = std::make_unique<TorchZip>(path);
    if (zip->is_torch_script()) file.format_ = TorchFormat::kTorchScript;
    const Pickle pickle = zip->pickle();
    file.tree_ = torch_tree(pickle.root(), pickle.size(), where);
    file.storages_ = std::move(zip);
  }
  file.check_tensors();
  return file;
}

void TorchFile::check_tensors() const {
  const std::uint64_t file_bytes = std::filesystem::file_size(path_);
  std::uint64_t left = kExpansion * file_bytes + kLeastBytes;
  for (const TorchTensor& tensor : tree_.tensors) {
    if (!tensor.refusal.empty() || tensor.content) continue;
    const auto held = storages_->bytes_of(tensor.storage);
    const std::uint64_t extent = *extent_of(tensor.view);
    if (!held || extent > *held / tensor.type.bytes) {
      base::fail(ErrorCode::kFormat,
                 "'{}': tensor {} needs {} elements of storage {}, which has {} bytes; copy the "
                 "file again",
                 path_.native(), quote_name(tensor.name), extent, quote_name(tensor.storage),
                 held.value_or(0));
    }
    const std::uint64_t bytes = *formats::bytes_of(tensor.view.sizes, tensor.type.bytes);
    if (bytes > left) {
      base::fail(ErrorCode::kFormat,
                 "'{}': tensor {} of shape [{}] is far larger than the file, as an expanded tensor "
                 "is; save contiguous copies",
                 path_.native(), quote_name(tensor.name), fmt::join(tensor.view.sizes, ", "));
    }
    left -= bytes;
  }
}

const TorchTensor* TorchFile::find(std::string_view name) const {
  const auto found = std::find_if(tree_.tensors.begin(), tree_.tensors.end(),
                                  [&](const TorchTensor& tensor) { return tensor.name == name; });
  return found == tree_.tensors.end() ? nullptr : &*found;
}

HostTensor TorchFile::read(std::string_view name) {
  if (const TorchTensor* tensor = find(name)) return read(*tensor);
  std::vector<std::string_view> known;
  for (const TorchTensor& other : tree_.tensors) known.push_back(other.name);
  base::fail(ErrorCode::kNotFound, "'{}' has no tensor {}{}", path_.native(), quote_name(name),
             base::did_you_mean(name, known));
}

HostTensor TorchFile::read(const TorchTensor& tensor) {
  const std::string where = "'" + path_.native() + "': tensor " + quote_name(tensor.name);
  if (!tensor.refusal.empty()) {
    base::fail(ErrorCode::kUnsupported, "{} is not read: {}", where, tensor.refusal);
  }
  if (tensor.content) return *tensor.content;
  if (held_.empty() || held_key_ != tensor.storage) {
    held_.clear();
    held_ = storages_->read(tensor.storage);
    held_key_ = tensor.storage;
  }
  const std::uint64_t bytes = *formats::bytes_of(tensor.view.sizes, tensor.type.bytes);
  if (tensor.view.is_dense()) {
    const auto begin = static_cast<std::size_t>(tensor.view.offset) * tensor.type.bytes;
    const auto part = std::span<const std::byte>(held_);
    return tensor_of(
        tensor.type, tensor.view.sizes,
        bytes == 0 ? part.first(0) : part.subspan(begin, static_cast<std::size_t>(bytes)), where);
  }
  std::vector<std::byte> dense(static_cast<std::size_t>(bytes));
  copy_dense(tensor.view, tensor.type.bytes, held_, dense);
  return tensor_of(tensor.type, tensor.view.sizes, dense, where);
}

}  // namespace sluice::io::formats
