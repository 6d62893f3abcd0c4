#include "interchange/folded_chain.h"

#include "base/check.h"

namespace sluice::interchange {
namespace {

constexpr std::string_view kAdvice =
    "; take the recurrent part alone, with --subgraph and the name of a recurrent layer";

/// All that linear layers are folded into may have so many times their own numbers.
constexpr std::size_t kMostGrowth = 64;
/// Products of numbers that one folding may take.
constexpr double kMostWork = 0x1p36;

std::size_t index(std::int64_t at) { return static_cast<std::size_t>(at); }

LinearMap map_of(const LinearLayer& layer) {
  LinearMap map{layer.weight.shape[0], layer.weight.shape[1], {}, {}};
  const auto weight = layer.weight.values<float>();
  map.matrix.assign(weight.begin(), weight.end());
  map.vector.resize(index(map.rows));
  if (layer.bias) {
    const auto bias = layer.bias->values<float>();
    map.vector.assign(bias.begin(), bias.end());
  }
  return map;
}

LinearMap map_of(const AffineLayer& layer) {
  const std::int64_t width = layer.scale.shape[0];
  const auto scale = layer.scale.values<float>();
  const auto shift = layer.shift.values<float>();
  return {width, width, {scale.begin(), scale.end()}, {shift.begin(), shift.end()}, true};
}

/// The same with a whole matrix.
LinearMap whole(LinearMap map) {
  if (!map.is_diagonal) return map;
  std::vector<double> matrix(index(map.rows * map.columns));
  for (std::int64_t i = 0; i < map.rows; ++i) {
    matrix[index(i * map.columns + i)] = map.matrix[index(i)];
  }
  map.matrix = std::move(matrix);
  map.is_diagonal = false;
  return map;
}

/// after(before(x)), of which `before` is diagonal.
LinearMap composed_with_diagonal(LinearMap after, const LinearMap& before) {
  const std::int64_t columns = after.is_diagonal ? 1 : after.columns;
  for (std::int64_t row = 0; row < after.rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t from = after.is_diagonal ? row : column;
      double& factor = after.matrix[index(row * columns + column)];
      after.vector[index(row)] += factor * before.vector[index(from)];
      factor *= before.matrix[index(from)];
    }
  }
  return after;
}

/// after(before(x)), of which `after` is diagonal.
LinearMap scaled(const LinearMap& after, LinearMap before) {
  for (std::int64_t row = 0; row < after.rows; ++row) {
    const double factor = after.matrix[index(row)];
    for (std::int64_t column = 0; column < before.columns; ++column) {
      before.matrix[index(row * before.columns + column)] *= factor;
    }
    double& shift = before.vector[index(row)];
    shift = factor * shift + after.vector[index(row)];
  }
  return before;
}

/// after(before(x)).
LinearMap composed(const LinearMap& after, const LinearMap& before, std::size_t most) {
  if (before.is_diagonal) return composed_with_diagonal(after, before);
  if (after.is_diagonal) return scaled(after, before);
  // Two thin matrices may have a product far larger than the file that holds them.
  const auto numbers =
      static_cast<std::size_t>(after.rows) * static_cast<std::size_t>(before.columns);
  const double work = static_cast<double>(numbers) * static_cast<double>(before.rows);
  if (numbers > most || work > kMostWork) {
    base::fail(ErrorCode::kUnsupported,
               "linear layers [{}, {}] and [{}, {}] would become one of {} numbers, which is too "
               "large",
               before.rows, before.columns, after.rows, after.columns, numbers);
  }
  LinearMap map{after.rows, before.columns, {}, after.vector};
  map.matrix.resize(index(map.rows * map.columns));
  for (std::int64_t row = 0; row < map.rows; ++row) {
    for (std::int64_t inner = 0; inner < before.rows; ++inner) {
      const double factor = after.matrix[index(row * after.columns + inner)];
      if (factor == 0) continue;
      map.vector[index(row)] += factor * before.vector[index(inner)];
      for (std::int64_t column = 0; column < map.columns; ++column) {
        map.matrix[index(row * map.columns + column)] +=
            factor * before.matrix[index(inner * before.columns + column)];
      }
    }
  }
  return map;
}

/// Lets a cell read what `before` reads.
void fold_into(CanonicalCell& cell, const LinearMap& before, std::size_t most) {
  const std::int64_t rows = cell.gates() * cell.hidden;
  const LinearMap own{rows,
                      cell.input,
                      {cell.weight_ih.begin(), cell.weight_ih.end()},
                      {cell.bias_ih.begin(), cell.bias_ih.end()}};
  const LinearMap both = composed(own, before, most);
  cell.input = before.columns;
  cell.weight_ih.assign(both.matrix.begin(), both.matrix.end());
  cell.bias_ih.assign(both.vector.begin(), both.vector.end());
}

class Folding {
 public:
  Folding(const std::vector<SourceLayer>& layers, const std::string& path)
      : layers_(layers), path_(path) {}

  FoldedChain fold() {
    for (const SourceLayer& layer : layers_) {
      if (!chain_.output_name.empty()) {
        refuse(name_of(layer), "stands behind the layer '" + chain_.output_name +
                                   "', which can only be the last one in Sluice");
      }
      std::visit([this](const auto& one) { add(one); }, layer);
    }
    if (chain_.layers.empty()) {
      base::fail(ErrorCode::kUnsupported, "'{}' has no recurrent layer", path_);
    }
    if (pending_) chain_.output = whole(*std::move(pending_));
    return std::move(chain_);
  }

 private:
  [[noreturn]] void refuse(std::string_view layer, std::string_view why) const {
    base::fail(ErrorCode::kUnsupported, "'{}': layer '{}' {}{}", path_, layer, why, kAdvice);
  }
  void require_width(std::string_view name, std::int64_t reads) const {
    if (width_ == 0 || reads == width_) return;
    base::fail(ErrorCode::kFormat,
               "'{}': layer '{}' reads {} numbers, but what is before it has {}", path_, name,
               reads, width_);
  }

  void add(const EmbeddingLayer& layer) {
    if (width_ != 0) refuse(layer.name, "is an embedding that is not at the beginning");
    const bool has_numbers = layer.table.shape.rank() == 2 && !layer.table.data.empty();
    if (!has_numbers) refuse(layer.name, "has no embeddings");
    chain_.embedding = &layer;
    width_ = layer.table.shape[1];
  }

  void add(const RecurrentLayer& layer) {
    if (chain_.pooling != "none") refuse(layer.name, "is recurrent and stands behind a pooling");
    require_width(layer.name, layer.input());
    CanonicalLayer canonical{.name = layer.name};
    if (layer.forward) canonical.forward = to_canonical(*layer.forward, layer.name);
    if (layer.backward) canonical.backward = to_canonical(*layer.backward, layer.name);
    for (std::optional<CanonicalCell>* cell : {&canonical.forward, &canonical.backward}) {
      if (*cell && pending_) fold_into(**cell, *pending_, most());
    }
    pending_.reset();
    width_ = canonical.output();
    chain_.layers.push_back(std::move(canonical));
  }

  void add(const LinearLayer& layer) {
    require_width(layer.name, layer.weight.shape[1]);
    if (layer.weight.data.empty()) refuse(layer.name, "has no weights");
    add_map(map_of(layer));
    if (!layer.activation.is("linear")) {
      chain_.activation = layer.activation;
      chain_.output_name = layer.name;
    }
  }

  void add(const AffineLayer& layer) {
    require_width(layer.name, layer.scale.shape[0]);
    add_map(map_of(layer));
  }

  /// Numbers that a product may have: of all matrices of the source, so that it does not grow from
  /// product to product.
  std::size_t most() const {
    std::size_t numbers = 0;
    for (const SourceLayer& layer : layers_) {
      if (const auto* linear = std::get_if<LinearLayer>(&layer)) {
        numbers += linear->weight.data.size() / sizeof(float);
      } else if (const auto* recurrent = std::get_if<RecurrentLayer>(&layer)) {
        const SourceCell& cell = recurrent->forward ? *recurrent->forward : *recurrent->backward;
        for (const auto& [name, tensor] : cell.tensors)
          numbers += tensor.data.size() / sizeof(float);
      }
    }
    return kMostGrowth * numbers + (1 << 20);
  }

  void add_map(LinearMap map) {
    width_ = map.rows;
    pending_ = pending_ ? composed(map, *pending_, most()) : std::move(map);
  }

  void add(const CrfLayer& layer) {
    if (!pending_ || chain_.pooling != "none") refuse(layer.name, "is a CRF not behind an output");
    for (const io::HostTensor* scores : {&layer.start, &layer.end}) {
      require_width(layer.name, scores->shape[0]);
    }
    chain_.crf = &layer;
    chain_.output_name = layer.name;
    chain_.activation = {"linear"};
  }

  void add(const PoolingLayer& layer) {
    if (chain_.layers.empty() || chain_.pooling != "none") {
      refuse(layer.name, "pools where Sluice has no pooling");
    }
    // The last step and the mean of linear results are the results of the last step and the mean.
    if (pending_ && layer.kind != "last" && layer.kind != "mean") {
      refuse(layer.name, "pools by " + layer.kind + " behind a linear layer");
    }
    chain_.pooling = layer.kind;
    chain_.query = layer.query;
  }

  const std::vector<SourceLayer>& layers_;
  const std::string& path_;
  FoldedChain chain_;
  std::optional<LinearMap> pending_;
  std::int64_t width_ = 0;  ///< of what the next layer reads; 0: not known
};

}  // namespace

FoldedChain fold(const std::vector<SourceLayer>& layers, const std::string& path) {
  return Folding(layers, path).fold();
}

}  // namespace sluice::interchange
