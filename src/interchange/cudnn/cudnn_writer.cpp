#include "interchange/cudnn/cudnn_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "interchange/cudnn/cudnn_buffer.h"
#include "interchange/folded_chain.h"
#include "io/formats/zip_writer.h"
#include "io/npy.h"
#include "io/output_file.h"

namespace sluice::interchange {
namespace {

namespace fs = std::filesystem;
using io::HostTensor;

/// A buffer and the cells in it.
struct Packed {
  CudnnStack stack;
  std::vector<const CanonicalCell*> cells = {};

  bool takes(const CanonicalCell& cell, std::int64_t directions) const {
    return cell.hidden == stack.hidden && cell.output == stack.output() &&
           directions == stack.directions;
  }
};

const CanonicalCell& cell_for_cudnn(const CanonicalLayer& layer) {
  const auto refuse = [&](bool has, std::string_view what) {
    if (!has) return;
    base::fail(ErrorCode::kUnsupported, "layer '{}' has {}, which cuDNN lacks", layer.name, what);
  };
  const CanonicalCell& cell = layer.forward ? *layer.forward : *layer.backward;
  const bool projects = !cell.weight_hr.empty();
  refuse(!layer.forward, "the backward direction alone");
  refuse(cell.hard_sigmoid, "hard sigmoids");
  refuse(!cell.weight_peephole.empty(), "peepholes");
  using kernels::recurrent::CellType;
  refuse(cell.type == CellType::kGruResetBefore, "a GRU that resets before the product");
  refuse(projects && cell.type != CellType::kLstm, "a projection of a cell other than LSTM");
  refuse(projects && cell.output >= cell.hidden, "a projection that is not to fewer units");
  return cell;
}

std::vector<Packed> packed(const std::vector<CanonicalLayer>& layers) {
  std::vector<Packed> all;
  for (const CanonicalLayer& layer : layers) {
    const CanonicalCell& cell = cell_for_cudnn(layer);
    const std::int64_t directions = layer.backward ? 2 : 1;
    if (all.empty() || !all.back().takes(cell, directions)) {
      all.push_back({.stack = {.cell = cell.type,
                               .layers = 0,
                               .directions = directions,
                               .input = cell.input,
                               .hidden = cell.hidden,
                               .projection = cell.weight_hr.empty() ? 0 : cell.output}});
    }
    ++all.back().stack.layers;
    all.back().cells.push_back(&cell);
    if (layer.backward) all.back().cells.push_back(&*layer.backward);
  }
  return all;
}

std::vector<float> narrowed(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// A comment ends with its line and has no control characters.
std::string in_comment(std::string text) {
  for (char& one : text) {
    const auto byte = static_cast<unsigned char>(one);
    if (byte < 0x20 || byte == 0x7f) one = '?';
  }
  return text;
}

/// One word of a command.
std::string in_shell(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/";
  if (text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char one : in_comment(text)) one == '\'' ? quoted += "'\\''" : quoted += one;
  return quoted + "'";
}

/// The archive, and the map that names its arrays.
class Writer {
 public:
  Writer(const fs::path& path, runtime::Device* device)
      : path_(path), archive_(path), device_(device) {}

  void write(const FoldedChain& chain) {
    const std::string name = path_.filename().native();
    map_ = fmt::format("# Reads the arrays of {}: sluice convert {} --map {}\n", in_comment(name),
                       in_shell(name), in_shell(name + ".toml"));
    if (chain.embedding != nullptr) {
      map_ += "\n[embedding]\n";
      add("table", "embedding", chain.embedding->table);
      if (chain.embedding->padding)
        map_ += fmt::format("padding = {}\n", *chain.embedding->padding);
    }
    const std::vector<Packed> buffers = packed(chain.layers);
    for (std::size_t at = 0; at < buffers.size(); ++at) {
      add_buffer(buffers[at], buffers.size() == 1 ? "weights" : fmt::format("weights_{}", at + 1));
    }
    if (chain.pooling != "none") map_ += fmt::format("\n[pooling]\nkind = \"{}\"\n", chain.pooling);
    if (chain.output) add_output(chain);
    archive_.finish();
    io::OutputFile file(path_.native() + ".toml");
    file.write(std::as_bytes(std::span(map_)));
    file.commit();
  }

 private:
  void add(std::string_view key, const std::string& name, const HostTensor& tensor) {
    const std::vector<std::int64_t> sizes(tensor.shape.begin(), tensor.shape.end());
    std::string content = io::npy_header(sizes);
    content.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    archive_.add(name + ".npy", content);
    map_ += fmt::format("{} = \"{}\"\n", key, name);
  }

  void add_buffer(const Packed& buffer, const std::string& name) {
    const CudnnStack& stack = buffer.stack;
    map_ += "\n[[layer]]\n";
    add("cudnn_buffer", name,
        cudnn_buffer_of(buffer.cells, stack, cudnn_layout_for(stack, device_)));
    map_ += fmt::format("cell = \"{}\"\nlayers = {}\ndirections = {}\ninput = {}\nhidden = {}\n",
                        kernels::recurrent::name_of(stack.cell), stack.layers, stack.directions,
                        stack.input, stack.hidden);
    if (stack.projection > 0) map_ += fmt::format("projection = {}\n", stack.projection);
  }

  void add_output(const FoldedChain& chain) {
    const LinearMap& output = *chain.output;
    SLUICE_ASSERT(!output.is_diagonal);
    map_ += "\n[output]\n";
    add("weight", "output_weight",
        HostTensor::copy_of<float>(narrowed(output.matrix), {output.rows, output.columns}));
    add("bias", "output_bias", HostTensor::copy_of<float>(narrowed(output.vector), {output.rows}));
    map_ += fmt::format("activation = \"{}\"\n", chain.activation.name);
  }

  fs::path path_;
  io::formats::ZipWriter archive_;
  runtime::Device* device_;
  std::string map_;
};

}  // namespace

void write_cudnn(const SourceModel& chain, const fs::path& path, runtime::Device* device) {
  const FoldedChain folded = fold(chain);
  if (folded.crf != nullptr) refuse_crf(*folded.crf, "cuDNN");
  if (folded.pooling == "attention") {
    base::fail(ErrorCode::kUnsupported,
               "the model pools by attention, which a map of arrays does not say");
  }
  Writer(path, device).write(folded);
}

}  // namespace sluice::interchange
