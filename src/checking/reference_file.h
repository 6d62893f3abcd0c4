#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checking/layer_values.h"
#include "checking/tolerance.h"
#include "data/examples.h"
#include "io/safetensors.h"

namespace sluice::checking {

/// The inputs of a batch as tensors, as far as it has them: "input.source" (tokens, or frames of
/// features), "input.source_lengths", "input.target" (tokens that are fed to a decoder or language
/// model, with the beginning mark) and "input.target_lengths".
std::vector<LayerValues> inputs_of(const data::Batch& batch);

/// Collects the layers of all batches for a file (docs/checking.md).
class ReferenceWriter {
 public:
  explicit ReferenceWriter(std::int64_t inputs) : inputs_(inputs) {}

  /// Row r of the batch is input inputs[r].
  void add(const LayerValues& layer, std::span<const std::int64_t> inputs);
  /// `precision`: of the run, as Precision::parse reads it. Throws as SafetensorsWriter::write.
  void write(const std::filesystem::path& path, const std::string& precision) const;

 private:
  /// One input's numbers of a layer.
  struct Row {
    std::int64_t width = 0;     ///< that of its batch: attention is as wide as the longest source
    std::vector<float> values;  ///< [steps, width]
  };
  struct Collected {
    LayerValues first;      ///< without its values
    std::vector<Row> rows;  ///< of each input
  };
  std::int64_t inputs_;
  std::vector<Collected> layers_;
};

/// A file of layers, read batch by batch. Errors are ErrorCode::kFormat and name the file and the
/// tensor.
class ReferenceFile {
 public:
  /// Opens a file that holds so many inputs. Throws also ErrorCode::kNotFound.
  ReferenceFile(const std::filesystem::path& path, std::int64_t inputs);

  std::string name() const { return file_.path().native(); }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  /// The rounding of a tensor: that of its dtype, or of the run if the file names a precision that
  /// rounds more.
  Rounding rounding_of(const std::string& name) const;

  /// Reads the layer, batch and steps of `like`; its row r is input inputs[r]. Throws if the tensor
  /// has another shape than [steps, inputs, width], where axes of one may be left out. The tensor
  /// may be wider than this batch: the first columns are read.
  LayerValues read(const LayerValues& like, std::span<const std::int64_t> inputs);
  /// Throws if the file holds inputs other than these.
  void require_inputs(const data::Batch& batch);

  /// Call it after all batches. Throws if a tensor has more steps than the longest input, is
  /// wider than in any batch, or is none of `layers`.
  void finish(std::span<const std::string> layers) const;

 private:
  struct Extent {
    std::int64_t steps, width;
  };
  /// That of a tensor for layers like this one, at least as wide as they.
  Extent extent_of(const io::SafetensorsEntry& entry, const LayerValues& like) const;
  [[noreturn]] void refuse_shape(const io::SafetensorsEntry& entry, const LayerValues& like,
                                 std::int64_t steps) const;

  /// Throws if a tensor of inputs shows that there were more or fewer of them, or other steps.
  void require_counts(const io::SafetensorsEntry& entry, const LayerValues& like,
                      std::int64_t steps) const;

  io::SafetensorsFile file_;
  std::int64_t inputs_;
  Rounding made_;  ///< of the run, if the file names its precision; else none
  /// The largest extent that was read of each layer, without values.
  std::map<std::string, LayerValues, std::less<>> longest_;
};

}  // namespace sluice::checking
