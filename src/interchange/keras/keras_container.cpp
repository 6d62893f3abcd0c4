#include <fmt/format.h>

#include "base/check.h"
#include "interchange/keras/keras_names.h"
#include "interchange/keras/keras_weights.h"

namespace sluice::interchange::keras {
namespace {

class ContainerWeights final : public Weights {
 public:
  ContainerWeights(io::formats::Hdf5File& file, std::string name)
      : file_(file), name_(std::move(name)) {}

  Tensors read(const Layer& layer, const Part& part,
               std::span<const std::string_view> names) override {
    check_name(layer);
    std::string place = place_of(layer, part);
    // CuDNNLSTM has no cell.
    if (part.is_cell && !file_.has(place + "/cell")) return read_group(layer, place, names);
    if (part.is_cell) place += "/cell";
    if (!part.stack.empty()) place += "/cells/" + cell_name(part);
    return read_group(layer, place, names);
  }

 private:
  static std::string place_of(const Layer& layer, const Part& part) {
    std::string place = layer.place;
    if (part.side == Part::Side::kForward) place += "/forward_layer";
    if (part.side == Part::Side::kBackward) place += "/backward_layer";
    if (part.is_wrapped) place += "/layer";
    return place;
  }
  static std::string cell_name(const Part& part) {
    Counter counter;
    std::string name;
    for (std::size_t i = 0; i <= part.index; ++i) name = counter.unique(snake_case(part.stack[i]));
    return name;
  }

  /// Newer versions say which layer a group belongs to.
  void check_name(const Layer& layer) {
    const std::string vars = layer.place + "/vars";
    if (!file_.has(vars) || !file_.has_attribute(vars, "name")) return;
    const std::string name = file_.attribute_text(vars, "name");
    if (name == layer.name) return;
    base::fail(ErrorCode::kFormat,
               "'{}': the weights in '{}' are of layer '{}', but layer '{}' should stand there",
               name_, layer.place, name, layer.name);
  }

  Tensors read_group(const Layer& layer, const std::string& place,
                     std::span<const std::string_view> names) {
    Tensors tensors;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string path = fmt::format("{}/vars/{}", place, i);
      if (!file_.has(path)) {
        base::fail(ErrorCode::kFormat, "'{}' has no weight '{}', the {} of layer '{}' ({})", name_,
                   path, names[i], layer.name, layer.type);
      }
      tensors.emplace(names[i], to_float32(file_.read_tensor(path)));
    }
    return tensors;
  }

  io::formats::Hdf5File& file_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Weights> container_weights(io::formats::Hdf5File& file, std::string name) {
  return std::make_unique<ContainerWeights>(file, std::move(name));
}

}  // namespace sluice::interchange::keras
