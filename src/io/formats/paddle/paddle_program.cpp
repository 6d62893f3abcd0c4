#include "io/formats/paddle/paddle_program.h"

#include <utility>

#include "io/formats/proto_reader.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

/// The list that `value` is to be; a field of another kind begins a new one.
template <typename T>
std::vector<T>& list_in(PaddleAttribute& value) {
  if (!std::holds_alternative<std::vector<T>>(value)) value = std::vector<T>();
  return std::get<std::vector<T>>(value);
}

void append_integers(ProtoReader& reader, PaddleAttribute& value) {
  reader.each_varint([&](std::int64_t i) { list_in<std::int64_t>(value).push_back(i); });
}

void read_attribute(ProtoReader reader, PaddleOp& op) {
  std::string name;
  PaddleAttribute value;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        name = reader.text();
        break;
      case 3:   // an int
      case 12:  // the number of a block
      case 13:  // a long
        value = reader.int64();
        break;
      case 4:
        value = reader.float32();
        break;
      case 5:
        value = reader.text();
        break;
      case 6:   // ints
      case 14:  // numbers of blocks
      case 15:  // longs
        append_integers(reader, value);
        break;
      case 7:
        append_fixed(reader, list_in<float>(value));
        break;
      case 8:
        list_in<std::string>(value).push_back(reader.text());
        break;
      case 10:
        value = reader.boolean();
        break;
      case 11:
        reader.each_varint([&](std::int64_t b) { list_in<bool>(value).push_back(b != 0); });
    }
  }
  if (name.empty()) reader.refuse("has no name");
  const bool is_new = op.attributes.emplace(name, std::move(value)).second;
  if (!is_new) reader.refuse("repeats the name {}", quote_name(name));
}

void read_arguments(ProtoReader reader, PaddleArguments& arguments) {
  std::string parameter;
  std::vector<std::string> names;
  reserve_for(reader, 2, names);
  while (reader.next()) {
    if (reader.tag() == 1) parameter = reader.text();
    if (reader.tag() == 2) names.push_back(reader.text());
  }
  if (parameter.empty()) reader.refuse("has no name");
  const bool is_new = arguments.emplace(parameter, std::move(names)).second;
  if (!is_new) reader.refuse("repeats the name {}", quote_name(parameter));
}

PaddleOp read_op(ProtoReader reader) {
  PaddleOp op;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        read_arguments(reader.message("OpDesc.Var"), op.inputs);
        break;
      case 2:
        read_arguments(reader.message("OpDesc.Var"), op.outputs);
        break;
      case 3:
        op.type = reader.text();
        break;
      case 4:
        read_attribute(reader.message("OpDesc.Attr"), op);
    }
  }
  if (op.type.empty()) reader.refuse("has no type");
  return op;
}

void read_tensor_desc(ProtoReader reader, PaddleVariable& variable) {
  while (reader.next()) {
    if (reader.tag() == 1) variable.data_type = reader.int32();
    if (reader.tag() == 2) {
      reader.each_varint([&](std::int64_t size) { variable.sizes.push_back(size); });
    }
  }
}

void read_lod_tensor_desc(ProtoReader reader, PaddleVariable& variable) {
  while (reader.next()) {
    if (reader.tag() == 1) read_tensor_desc(reader.message("VarType.TensorDesc"), variable);
  }
}

void read_variable_type(ProtoReader reader, PaddleVariable& variable) {
  while (reader.next()) {
    if (reader.tag() == 1) variable.type = reader.int32();
    if (reader.tag() == 3) {
      read_lod_tensor_desc(reader.message("VarType.LoDTensorDesc"), variable);
    }
  }
}

PaddleVariable read_variable(ProtoReader reader) {
  PaddleVariable variable;
  while (reader.next()) {
    if (reader.tag() == 1) variable.name = reader.text();
    if (reader.tag() == 2) read_variable_type(reader.message("VarType"), variable);
    if (reader.tag() == 3) variable.is_persistable = reader.boolean();
  }
  if (variable.name.empty()) reader.refuse("has no name");
  return variable;
}

PaddleBlock read_block(ProtoReader reader) {
  PaddleBlock block;
  reserve_for(reader, 3, block.variables);
  reserve_for(reader, 4, block.ops);
  while (reader.next()) {
    if (reader.tag() == 3) block.variables.push_back(read_variable(reader.message("VarDesc")));
    if (reader.tag() == 4) block.ops.push_back(read_op(reader.message("OpDesc")));
  }
  return block;
}

std::int64_t read_version(ProtoReader reader) {
  std::int64_t version = 0;
  while (reader.next()) {
    if (reader.tag() == 1) version = reader.int64();
  }
  return version;
}

}  // namespace

const PaddleAttribute* PaddleOp::find(std::string_view attribute) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? nullptr : &found->second;
}

PaddleProgram read_paddle_program(const ByteSource& source) {
  const std::string bytes = read_message_bytes(source);
  ProtoReader reader(bytes, source.path().native(), "ProgramDesc");
  PaddleProgram program;
  reserve_for(reader, 1, program.blocks);
  while (reader.next()) {
    if (reader.tag() == 1) program.blocks.push_back(read_block(reader.message("BlockDesc")));
    if (reader.tag() == 4) program.version = read_version(reader.message("Version"));
  }
  if (program.blocks.empty()) reader.refuse("has no blocks; is it another kind of file?");
  return program;
}

PaddleProgram read_paddle_program(const std::filesystem::path& path) {
  return read_paddle_program(ByteSource(File::open(path)));
}

}  // namespace sluice::io::formats
