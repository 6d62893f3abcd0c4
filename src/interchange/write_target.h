#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/assemble.h"
#include "interchange/source_model.h"
#include "io/checkpoint.h"
#include "runtime/device.h"

namespace sluice::interchange {

/// What sluice convert writes.
inline constexpr std::array<std::string_view, 8> kTargetNames{
    "sluice", "torch", "keras", "tf1", "pb", "savedmodel", "onnx", "cudnn"};

/// A model of Sluice in the layout of a target.
struct Export {
  SourceModel chain;  ///< without layers if the model is no chain (a seq2seq)
  Assembled model;    ///< what it is made of, with the layers that correspond
};

/// Lays a model out for a target of kTargetNames but "sluice"; of `subgraph`, "encoder", "stack" or
/// "recurrent", only the recurrent layers. Throws as chain_of_model().
Export export_model(const io::Container& container, std::string_view target,
                    std::string_view subgraph);

/// Writes the file, folder or checkpoint, whole or not at all. A model that reads ids gets its
/// vocabulary beside it, "<path>.words.txt", a line for each id, and one with labels
/// "<path>.labels.txt". `device` is the GPU whose cuDNN lays out "cudnn", or null. Throws
/// ErrorCode::kIo if the disk refuses.
void write_target(const Export& exported, std::string_view target,
                  const std::filesystem::path& path, runtime::Device* device = nullptr);

/// The lines of a file of words or labels: their texts, and "<id7>" for one that breaks lines.
std::vector<std::string> written_lines(std::vector<std::string> texts);

}  // namespace sluice::interchange
