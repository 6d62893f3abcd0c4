#include "io/formats/tensorflow/saved_model.h"

#include <protozero/pbf_writer.hpp>
#include <utility>

#include "base/check.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

using protozero::pbf_writer;

constexpr std::int64_t kSchema = 1;
constexpr std::string_view kFileName = "saved_model.pb";

SignatureTensor read_tensor_info(ProtoReader reader) {
  SignatureTensor tensor;
  while (reader.next()) {
    if (reader.tag() == 1) tensor.name = reader.text();
    if (reader.tag() == 2) tensor.type = reader.int32();
    if (reader.tag() == 3) tensor.shape = read_tensorflow_shape(reader.message("TensorShapeProto"));
  }
  return tensor;
}

/// Reads an entry of a map whose values `read` makes of messages.
template <typename T, typename Read>
void read_entry(ProtoReader reader, const char* message, std::map<std::string, T>& map,
                Read&& read) {
  std::string key;
  T value;
  while (reader.next()) {
    if (reader.tag() == 1) key = reader.text();
    if (reader.tag() == 2) value = read(reader.message(message));
  }
  if (key.empty()) reader.refuse("has no name");
  if (!map.emplace(key, std::move(value)).second) {
    reader.refuse("repeats the name {}", quote_name(key));
  }
}

Signature read_signature(ProtoReader reader) {
  Signature signature;
  while (reader.next()) {
    if (reader.tag() == 3) signature.method = reader.text();
    if (reader.tag() != 1 && reader.tag() != 2) continue;
    auto& tensors = reader.tag() == 1 ? signature.inputs : signature.outputs;
    read_entry(reader.message("SignatureDef entry"), "TensorInfo", tensors, read_tensor_info);
  }
  return signature;
}

void read_meta_info(ProtoReader reader, MetaGraph& graph) {
  reserve_for(reader, 4, graph.tags);
  while (reader.next()) {
    if (reader.tag() == 4) graph.tags.push_back(reader.text());
    if (reader.tag() == 5) graph.tensorflow_version = reader.text();
  }
}

MetaGraph read_meta_graph(ProtoReader reader) {
  MetaGraph graph;
  bool has_graph = false;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        read_meta_info(reader.message("MetaInfoDef"), graph);
        break;
      case 2:
        if (std::exchange(has_graph, true)) reader.refuse("holds two graphs");
        graph.graph = read_graph_def(reader.message("GraphDef"));
        break;
      case 5:
        read_entry(reader.message("MetaGraphDef entry"), "SignatureDef", graph.signatures,
                   read_signature);
        break;
      case 7:
        graph.has_objects = true;
    }
  }
  if (!has_graph) reader.refuse("holds no graph");
  return graph;
}

void write_tensor_infos(pbf_writer& parent, std::uint32_t field,
                        const std::map<std::string, SignatureTensor>& tensors) {
  for (const auto& [key, tensor] : tensors) {
    SLUICE_CHECK(!tensor.name.empty(), "the signature's tensor {} needs a name", quote_name(key));
    pbf_writer entry(parent, field);
    entry.add_string(1, key);
    pbf_writer info(entry, 2);
    info.add_string(1, tensor.name);
    info.add_enum(2, tensor.type);
    write_tensorflow_shape(info, 3, tensor.shape);
  }
}

void write_meta_graph(pbf_writer writer, const MetaGraph& graph) {
  {
    pbf_writer info(writer, 1);
    for (const std::string& tag : graph.tags) info.add_string(4, tag);
    if (!graph.tensorflow_version.empty()) info.add_string(5, graph.tensorflow_version);
  }
  writer.add_message(2, write_graph_def(graph.graph));
  for (const auto& [key, signature] : graph.signatures) {
    pbf_writer entry(writer, 5);
    entry.add_string(1, key);
    pbf_writer value(entry, 2);
    write_tensor_infos(value, 1, signature.inputs);
    write_tensor_infos(value, 2, signature.outputs);
    value.add_string(3, signature.method);
  }
}

}  // namespace

SavedModel read_saved_model(const ByteSource& source) {
  const std::string bytes = read_message_bytes(source);
  refuse_text_format(bytes, source.path());
  ProtoReader reader(bytes, source.path().native(), "SavedModel");
  SavedModel model;
  reserve_for(reader, 2, model.graphs);
  while (reader.next()) {
    if (reader.tag() == 2) model.graphs.push_back(read_meta_graph(reader.message("MetaGraphDef")));
    if (reader.tag() == 1 && reader.int64() > kSchema) {
      reader.refuse_unsupported("has a newer schema than {}", kSchema);
    }
  }
  if (model.graphs.empty()) reader.refuse("holds no graph; is it another kind of file?");
  return model;
}

SavedModel read_saved_model(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored))
    return read_saved_model(ByteSource(File::open(path)));
  const std::filesystem::path file = path / kFileName, text = path / "saved_model.pbtxt";
  if (!std::filesystem::exists(file, ignored) && std::filesystem::exists(text, ignored)) {
    refuse_text_format({}, text);
  }
  return read_saved_model(ByteSource(File::open(file)));
}

std::filesystem::path saved_model_variables(const std::filesystem::path& folder) {
  return folder / "variables" / "variables";
}

std::string write_saved_model(const SavedModel& model) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_int64(1, kSchema);
  for (const MetaGraph& graph : model.graphs) write_meta_graph(pbf_writer(writer, 2), graph);
  check_message_size(bytes);
  return bytes;
}

}  // namespace sluice::io::formats
