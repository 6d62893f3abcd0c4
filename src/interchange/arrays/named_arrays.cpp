#include "interchange/arrays/named_arrays.h"

#include <algorithm>
#include <memory>
#include <span>

#include "base/check.h"
#include "interchange/source_model.h"
#include "io/formats/torch/torch_file.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "io/zip_archive.h"

namespace sluice::interchange {
namespace {

namespace fs = std::filesystem;
using io::HostTensor;

HostTensor tensor_of(const io::NpyArray& array, const std::string& where) {
  if (array.shape.size() > base::Shape::kMaxRank) {
    base::fail(ErrorCode::kUnsupported, "{} has {} axes; {} are read", where, array.shape.size(),
               base::Shape::kMaxRank);
  }
  HostTensor tensor = HostTensor::make(base::DType::kFloat32, base::Shape(std::span(array.shape)));
  const auto values = tensor.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = array.is_integer ? static_cast<float>(array.integers[i]) : array.floats[i];
  }
  return tensor;
}

}  // namespace

NamedArrays::NamedArrays(std::string format, fs::path path, std::vector<Entry> entries, Read read,
                         bool is_ordered)
    : format_(std::move(format)),
      path_(std::move(path)),
      entries_(std::move(entries)),
      read_(std::move(read)),
      is_ordered_(is_ordered) {}

const NamedArrays::Entry* NamedArrays::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  return found == entries_.end() ? nullptr : &*found;
}

HostTensor NamedArrays::read(std::string_view name) const {
  if (find(name) == nullptr) {
    base::fail(ErrorCode::kNotFound, "'{}' has no tensor '{}'", path_.native(), name);
  }
  return to_float32(read_(std::string(name)));
}

NamedArrays open_safetensors_arrays(const fs::path& path) {
  const auto file = std::make_shared<io::SafetensorsFile>(io::SafetensorsFile::open(path));
  std::vector<NamedArrays::Entry> entries;
  for (const io::SafetensorsEntry& entry : file->tensors()) {
    entries.push_back({entry.name, {entry.sizes.begin(), entry.sizes.end()}});
  }
  return {"a safetensors file", path, std::move(entries),
          [file](const std::string& name) { return file->read(name); }, false};
}

NamedArrays open_torch_arrays(const fs::path& path) {
  using io::formats::TorchFormat;
  const auto file = std::make_shared<io::formats::TorchFile>(io::formats::TorchFile::open(path));
  std::vector<NamedArrays::Entry> entries;
  for (const io::formats::TorchTensor& tensor : file->tensors()) {
    entries.push_back({tensor.name, tensor.view.sizes});
  }
  const char* format = file->format() == TorchFormat::kTorchScript ? "a TorchScript archive"
                       : file->format() == TorchFormat::kLegacy    ? "a PyTorch file of before 1.6"
                                                                   : "a PyTorch file";
  return {format, path, std::move(entries),
          [file](const std::string& name) { return file->read(name); }, true};
}

NamedArrays open_npz_arrays(const fs::path& path) {
  const auto archive = std::make_shared<io::ZipArchive>(path);
  const auto open_member = [archive, path](const io::ZipArchive::Member& member) {
    archive->open(member);
    return io::NpyReader([archive](std::span<char> out) { return archive->read(out); },
                         "'" + path.native() + "' member '" + member.name + "'");
  };
  std::vector<NamedArrays::Entry> entries;
  for (const io::ZipArchive::Member& member : archive->members()) {
    if (!member.name.ends_with(".npy")) continue;
    const std::string name = member.name.substr(0, member.name.size() - 4);
    entries.push_back({name, open_member(member).shape()});
  }
  const auto read = [archive, path, open_member](const std::string& name) {
    const auto& members = archive->members();
    const auto member = std::ranges::find(members, name + ".npy", &io::ZipArchive::Member::name);
    io::NpyReader reader = open_member(*member);
    io::NpyArray array;
    array.shape = reader.shape();
    array.is_integer = reader.is_integer();
    reader.read(reader.element_count(), array);
    return tensor_of(array, "'" + path.native() + "' member '" + member->name + "'");
  };
  return {"a NumPy archive (.npz)", path, std::move(entries), read, true};
}

NamedArrays open_npy_array(const fs::path& path) {
  const auto tensor =
      std::make_shared<HostTensor>(tensor_of(io::read_npy(path), "'" + path.native() + "'"));
  const base::Shape& shape = tensor->shape;
  return {"an array of NumPy (.npy)",
          path,
          {{path.stem().native(), {shape.begin(), shape.end()}}},
          [tensor](const std::string&) { return *tensor; },
          true};
}

}  // namespace sluice::interchange
