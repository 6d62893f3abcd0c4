#include "interchange/source_format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "base/check.h"
#include "io/byte_source.h"
#include "io/checkpoint.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/zip_archive.h"

namespace sluice::interchange {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr std::string_view kHdf5 = "\x89HDF\r\n\x1a\n"sv;
constexpr std::string_view kNpy = "\x93NUMPY"sv;
constexpr std::string_view kZip = "PK\x03\x04"sv;
/// The first pickle of files of PyTorch before 1.6: its magic number.
constexpr std::string_view kTorchLegacy =
    "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."sv;
/// The end of a sorted table of TensorFlow.
constexpr std::string_view kTable = "\x57\xfb\x80\x8b\x24\x75\x47\xdb"sv;

constexpr std::size_t kHead = 64;

std::string bytes_of(const io::ByteSource& source, std::uint64_t offset, std::size_t count) {
  std::string bytes(count, '\0');
  source.read_at(offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

SourceFormat format_of_zip(const fs::path& path) {
  const io::ZipArchive archive(path);
  for (const io::ZipArchive::Member& member : archive.members()) {
    if (member.name == "model.weights.h5" || member.name == "config.json") {
      return SourceFormat::kKeras;
    }
    if (member.name.ends_with("/data.pkl") || member.name == "data.pkl") {
      return SourceFormat::kTorch;
    }
    if (member.name.ends_with(".npy")) return SourceFormat::kNpz;
  }
  base::fail(ErrorCode::kUnsupported,
             "'{}' is a zip file that is none of Keras, PyTorch or NumPy; if it packs a model, "
             "unpack it first",
             path.native());
}

/// A safetensors file begins with the length of its JSON.
bool is_safetensors(std::string_view head, std::uint64_t size) {
  if (head.size() < 9 || head[8] != '{') return false;
  std::uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof(length));
  return length <= size - sizeof(length);
}

SourceFormat format_of_safetensors(const fs::path& path) {
  const io::SafetensorsFile file = io::SafetensorsFile::open(path);
  const bool is_ours = std::ranges::any_of(
      file.metadata(), [](const auto& entry) { return entry.first.starts_with("sluice"); });
  return is_ours ? SourceFormat::kSluice : SourceFormat::kSafetensors;
}

/// The formats of protobuf begin with their first fields.
std::optional<SourceFormat> format_of_protobuf(std::string_view head) {
  if (head.size() < 3) return std::nullopt;
  // A GraphDef begins with a node, a message with a name.
  if (head[0] == '\x0a') return SourceFormat::kTensorflowGraph;
  if (head[0] != '\x08') return std::nullopt;
  // A SavedModel has the schema 1 and then graphs; versions of ONNX's format begin with 3.
  if (head[1] == '\x01' && head[2] == '\x12') return SourceFormat::kSavedModel;
  return SourceFormat::kOnnx;
}

bool is_pickle(std::string_view head) {
  if (head.size() < 2) return false;
  const auto protocol = static_cast<unsigned char>(head[1]);
  return head[0] == '\x80' ? protocol >= 2 && protocol <= 5
                           : head.starts_with("(dp") || head.starts_with("(lp") ||
                                 head.starts_with("ccopy_reg") || head.starts_with("cnumpy");
}

SourceFormat format_of_folder(const fs::path& path) {
  if (fs::exists(path / "saved_model.pb")) return SourceFormat::kSavedModel;
  if (fs::exists(path / "__model__")) return SourceFormat::kPaddle;
  if (fs::exists(path / "checkpoint")) return SourceFormat::kTensorflowCheckpoint;
  for (const std::string_view run : {io::kBestFolderName, io::kLastFolderName}) {
    if (fs::exists(path / run)) return SourceFormat::kSluice;
  }
  if (fs::exists(path / io::kModelFileName)) {
    return format_of_safetensors(path / io::kModelFileName);
  }
  base::fail(ErrorCode::kUnsupported,
             "the folder '{}' holds neither a model of Sluice nor a SavedModel nor checkpoints of "
             "TensorFlow nor a model of Paddle (__model__); give the model's file",
             path.native());
}

}  // namespace

std::string_view describe(SourceFormat format) {
  switch (format) {
    case SourceFormat::kSluice:
      return "a model of Sluice";
    case SourceFormat::kSafetensors:
      return "a safetensors file";
    case SourceFormat::kTorch:
      return "a PyTorch file";
    case SourceFormat::kNpz:
      return "a NumPy archive";
    case SourceFormat::kNpy:
      return "an array of NumPy";
    case SourceFormat::kPickle:
      return "a pickle";
    case SourceFormat::kKeras:
      return "a Keras file";
    case SourceFormat::kTensorflowCheckpoint:
      return "a checkpoint of TensorFlow";
    case SourceFormat::kTensorflowGraph:
      return "a graph of TensorFlow";
    case SourceFormat::kSavedModel:
      return "a SavedModel of TensorFlow";
    case SourceFormat::kOnnx:
      return "an ONNX model";
    case SourceFormat::kPaddle:
      break;
  }
  return "a model of Paddle";
}

SourceFormat recognize(const fs::path& path) {
  if (fs::is_directory(path)) return format_of_folder(path);
  if (!fs::exists(path) && fs::exists(path.native() + ".index")) {
    return SourceFormat::kTensorflowCheckpoint;
  }
  const io::ByteSource source(io::File::open(path));
  const std::uint64_t size = source.size();
  const std::string head = bytes_of(source, 0, std::min<std::uint64_t>(size, kHead));
  if (head.starts_with(kHdf5)) return SourceFormat::kKeras;
  if (head.starts_with(kZip)) return format_of_zip(path);
  if (head.starts_with(kNpy)) return SourceFormat::kNpy;
  if (head.starts_with(kTorchLegacy)) return SourceFormat::kTorch;
  if (is_safetensors(head, size)) return format_of_safetensors(path);
  if (size >= kTable.size() && bytes_of(source, size - kTable.size(), kTable.size()) == kTable) {
    return SourceFormat::kTensorflowCheckpoint;
  }
  if (is_pickle(head)) return SourceFormat::kPickle;
  if (const std::optional<SourceFormat> format = format_of_protobuf(head)) return *format;
  base::fail(ErrorCode::kUnsupported,
             "'{}' is of no format that sluice convert reads: PyTorch, safetensors, NumPy, pickle, "
             "Keras, TensorFlow, ONNX or Paddle",
             path.native());
}

}  // namespace sluice::interchange
