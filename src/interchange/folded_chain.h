#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interchange/canonical_cell.h"
#include "interchange/source_model.h"

namespace sluice::interchange {

/// A recurrent layer in canonical form; one of the directions may be absent.
struct CanonicalLayer {
  std::string name;
  std::optional<CanonicalCell> forward = {}, backward = {};

  std::int64_t output() const {
    return (forward ? forward->output : 0) + (backward ? backward->output : 0);
  }
};

/// A matrix [rows, columns] and a vector [rows], in double, for y = matrix x + vector. A diagonal
/// matrix is kept as its diagonal alone, [rows].
struct LinearMap {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> matrix, vector;
  bool is_diagonal = false;
};

/// A chain without linear layers but the last: the others are multiplied into what reads them,
/// which changes no result but by rounding.
struct FoldedChain {
  const EmbeddingLayer* embedding = nullptr;  ///< of the source
  std::vector<CanonicalLayer> layers;         ///< at least one
  std::string pooling = "none";
  std::optional<io::HostTensor> query = {};  ///< of pooling by attention
  std::optional<LinearMap> output = {};
  const CrfLayer* crf = nullptr;    ///< of the source
  Activation activation{"linear"};  ///< of the output
  std::string output_name = {};     ///< of the layer that has the activation
};

/// The result points into `layers`; `path` is for messages. Throws ErrorCode::kUnsupported, naming
/// the layer, for a chain that is no embedding, recurrent layers, pooling and linear output in this
/// order; kFormat for widths that don't fit.
FoldedChain fold(const std::vector<SourceLayer>& layers, const std::string& path);
inline FoldedChain fold(const SourceModel& source) { return fold(source.layers, source.path); }

}  // namespace sluice::interchange
