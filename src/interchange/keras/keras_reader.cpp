#include "interchange/keras/keras_reader.h"

#include <fmt/format.h>

#include <optional>

#include "base/check.h"
#include "interchange/keras/keras_chain.h"
#include "interchange/keras/keras_config.h"
#include "interchange/keras/keras_weights.h"
#include "interchange/keras/keras_weights_only.h"
#include "io/zip_archive.h"

namespace sluice::interchange {
namespace {

using io::formats::Hdf5File;

/// The content of a member of the file, or nothing. Keras stores weights as they are, and a
/// configuration that is packed far better than text is none.
std::optional<std::string> member_of(io::ZipArchive& archive, std::string_view name) {
  constexpr std::uint64_t kMostGrowth = 64, kAlways = 1 << 20;
  for (const io::ZipArchive::Member& member : archive.members()) {
    if (member.name != name) continue;
    archive.open(member);
    std::string content;
    // Memory grows with what arrives, not with what the directory promises.
    std::string part(std::size_t{1} << 20, '\0');
    const std::uint64_t most = kMostGrowth * member.packed_bytes + kAlways;
    while (const std::size_t count = archive.read(part)) {
      content.append(part, 0, count);
      if (content.size() <= most) continue;
      base::fail(ErrorCode::kFormat, "member '{}' unpacks to more than {} times its size", name,
                 kMostGrowth);
    }
    return content;
  }
  return std::nullopt;
}

std::string require_member(io::ZipArchive& archive, std::string_view name, std::string_view file) {
  std::optional<std::string> content = member_of(archive, name);
  if (!content) {
    base::fail(ErrorCode::kFormat, "'{}' is a zip file without '{}', so it is no .keras file", file,
               name);
  }
  return std::move(*content);
}

void read_layers(const keras::Json& config, const keras::Reading& reading, SourceModel& model) {
  try {
    if (reading.options.subgraph.empty()) {
      keras::read_chain(keras::chain_of(config, model.path), reading, model);
    } else {
      keras::read_subgraph(keras::all_layers(config, model.path), reading.options.subgraph, reading,
                           model);
    }
  } catch (const keras::Json::exception& error) {
    base::fail(ErrorCode::kFormat, "'{}': its configuration is damaged: {}", model.path,
               error.what());
  }
}

SourceModel read_container(const std::filesystem::path& path, const ReadOptions& options) {
  SourceModel model;
  model.format = "a Keras file (.keras)";
  model.path = path;
  io::ZipArchive archive(path);
  const keras::Json config =
      keras::parse_config(require_member(archive, "config.json", model.path), model.path);
  const keras::Json metadata =
      keras::parse_config(member_of(archive, "metadata.json").value_or("{}"), model.path);
  std::string version;
  if (metadata.is_object() && metadata.contains("keras_version") &&
      metadata["keras_version"].is_string()) {
    version = metadata["keras_version"].get<std::string>();
    model.account.find(fmt::format("Keras {} (metadata.json)", version));
  }
  const std::string bytes = require_member(archive, "model.weights.h5", model.path);
  const std::string name = model.path + "/model.weights.h5";
  Hdf5File file = Hdf5File::open(io::ByteSource(bytes, name));
  const auto weights = keras::container_weights(file, name);
  read_layers(config, {*weights, version, options, model.account}, model);
  return model;
}

SourceModel read_hdf5(const std::filesystem::path& path, const ReadOptions& options) {
  SourceModel model;
  model.format = "a Keras file (.h5)";
  model.path = path;
  Hdf5File file = Hdf5File::open(path);
  std::string version;
  if (file.has_attribute("", "keras_version")) {
    version = file.attribute_text("", "keras_version");
    model.account.find(fmt::format("Keras {} (attribute keras_version)", version));
  }
  if (!file.has_attribute("", "model_config")) {
    model.format = "Keras weights (.h5)";
    keras::read_weights_only(file, version, options, model);
    return model;
  }
  const keras::Json config =
      keras::parse_config(file.attribute_text("", "model_config"), model.path);
  const auto weights =
      keras::legacy_weights(file, file.has("model_weights") ? "model_weights" : "", model.path);
  read_layers(config, {*weights, version, options, model.account}, model);
  return model;
}

}  // namespace

SourceModel read_keras(const std::filesystem::path& path, const ReadOptions& options) {
  char first[2] = {};
  const io::File file = io::File::open(path);
  if (file.size() >= sizeof first) file.read_at(0, std::as_writable_bytes(std::span(first)));
  const bool is_zip = first[0] == 'P' && first[1] == 'K';
  return is_zip ? read_container(path, options) : read_hdf5(path, options);
}

}  // namespace sluice::interchange
