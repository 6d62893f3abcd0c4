#include <algorithm>

#include "base/check.h"
#include "io/formats/torch/torch_storages.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

/// A pickle of more is no description of tensors.
constexpr std::uint64_t kLargestPickle = std::uint64_t{256} << 20;
constexpr std::string_view kPickleName = "data.pkl";

bool is_in_folder(std::string_view name, std::string_view member) {
  return name == member || (name.ends_with(member) && name[name.size() - member.size() - 1] == '/');
}

}  // namespace

TorchZip::TorchZip(const std::filesystem::path& path) : archive_(path), path_(path.native()) {
  index_members();
  check_sizes();
  require_little_endian();
}

void TorchZip::index_members() {
  const ZipArchive::Member* pickle = nullptr;
  bool is_old_script = false;
  for (const ZipArchive::Member& member : archive_.members()) {
    if (!members_.emplace(member.name, &member).second) {
      base::fail(ErrorCode::kFormat, "'{}' has the member {} twice; save it again", path_,
                 quote_name(member.name));
    }
    is_old_script = is_old_script || is_in_folder(member.name, "model.json");
    const bool is_shorter = pickle == nullptr || member.name.size() < pickle->name.size();
    if (is_in_folder(member.name, kPickleName) && is_shorter) pickle = &member;
  }
  if (pickle == nullptr && is_old_script) {
    base::fail(ErrorCode::kUnsupported,
               "'{}' is a TorchScript archive of PyTorch 1.3 or older; load it with a newer "
               "torch.jit.load and save it again",
               path_);
  }
  if (pickle == nullptr) {
    base::fail(ErrorCode::kFormat, "'{}' is a zip file without data.pkl, so none of PyTorch",
               path_);
  }
  folder_ = pickle->name.substr(0, pickle->name.size() - kPickleName.size());
  is_torch_script_ = find(folder_ + "constants.pkl") != nullptr;
}

/// Members that overlap would make few bytes of the file take much memory.
void TorchZip::check_sizes() const {
  std::error_code error;
  std::uint64_t left = std::filesystem::file_size(path_, error);
  if (error) base::fail(ErrorCode::kIo, "cannot inspect '{}'", path_);
  for (const ZipArchive::Member& member : archive_.members()) {
    const bool is_ours =
        member.name.starts_with(folder_ + "data") || member.name == folder_ + "byteorder";
    if (!is_ours) continue;
    if (member.is_deflated) {
      base::fail(ErrorCode::kUnsupported,
                 "'{}' member {} is compressed, which PyTorch does not do; load the file with "
                 "torch.load and save it again",
                 path_, quote_name(member.name));
    }
    if (member.bytes != member.packed_bytes || member.bytes > left) {
      base::fail(ErrorCode::kFormat,
                 "'{}' member {} has {} bytes by the zip directory, more than are there; copy the "
                 "file again",
                 path_, quote_name(member.name), member.bytes);
    }
    left -= member.bytes;
  }
}

void TorchZip::require_little_endian() {
  const ZipArchive::Member* member = find(folder_ + "byteorder");
  if (member == nullptr) return;  // files before PyTorch 2.1
  std::string order(static_cast<std::size_t>(std::min<std::uint64_t>(member->bytes, 16)), '\0');
  read_member(*member, order);
  if (order != "little") {
    base::fail(ErrorCode::kUnsupported,
               "'{}' has the byte order {}; only little-endian files are read", path_,
               quote_name(order));
  }
}

const ZipArchive::Member* TorchZip::find(const std::string& name) const {
  const auto found = members_.find(name);
  return found == members_.end() ? nullptr : found->second;
}

void TorchZip::read_member(const ZipArchive::Member& member, std::span<char> content) {
  archive_.open(member);
  std::size_t filled = 0;
  while (filled < content.size()) {
    const std::size_t got = archive_.read(content.subspan(filled));
    if (got == 0) break;
    filled += got;
  }
  char more = 0;
  archive_.read({&more, 1});  // compares the checksum
}

Pickle TorchZip::pickle() {
  const ZipArchive::Member& member = *find(folder_ + std::string(kPickleName));
  const std::string where = "'" + path_ + "' member " + quote_name(member.name);
  if (member.bytes > kLargestPickle) {
    base::fail(ErrorCode::kUnsupported, "{} has {} bytes; at most {} are read", where, member.bytes,
               kLargestPickle);
  }
  std::string bytes(static_cast<std::size_t>(member.bytes), '\0');
  read_member(member, bytes);
  return Pickle::parse(std::move(bytes), where);
}

std::optional<std::uint64_t> TorchZip::bytes_of(std::string_view key) const {
  const ZipArchive::Member* member = find(folder_ + "data/" + std::string(key));
  if (member == nullptr) return std::nullopt;
  return member->bytes;
}

std::vector<std::byte> TorchZip::read(std::string_view key) {
  const ZipArchive::Member& member = *find(folder_ + "data/" + std::string(key));
  std::vector<std::byte> content(static_cast<std::size_t>(member.bytes));
  read_member(member, {reinterpret_cast<char*>(content.data()), content.size()});
  return content;
}

}  // namespace sluice::io::formats
