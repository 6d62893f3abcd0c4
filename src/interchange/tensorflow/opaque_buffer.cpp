#include "interchange/tensorflow/opaque_buffer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "interchange/tensorflow/names.h"

namespace sluice::interchange::tensorflow {
namespace {

// More layers, or larger ones, are a mistake in an answer.
constexpr std::int64_t kMostLayers = 256, kMostWidth = 1 << 20;

struct Sizes {
  CellKind kind = CellKind::kLstm;
  std::int64_t layers = 0, directions = 0, hidden = 0, input = 0;

  std::int64_t rows() const { return (kind == CellKind::kLstm ? 4 : 3) * hidden; }
  std::int64_t input_of(std::int64_t layer) const {
    return layer == 0 ? input : hidden * directions;
  }
  std::int64_t total() const {
    std::int64_t sum = 0;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      sum += directions * rows() * (input_of(layer) + hidden + 2);
    }
    return sum;
  }
};

std::int64_t size_of(const ReadOptions& options, const char* key, std::int64_t most,
                     const std::string& name) {
  const std::optional<double> number = options.find_number(key);
  SLUICE_CHECK(number,
               "'{}' is cuDNN's flat buffer, which does not hold its sizes; say --set "
               "opaque_layers=N --set opaque_directions=1 or 2 --set opaque_hidden=H --set "
               "opaque_input=I ({} is missing)",
               name, key);
  const auto size =
      *number >= 1 && *number <= static_cast<double>(most) ? static_cast<std::int64_t>(*number) : 0;
  SLUICE_CHECK(size > 0 && static_cast<double>(size) == *number,
               "--set {}={}: it is a whole number from 1 to {}", key, *number, most);
  return size;
}

CellKind kind_of(const std::string& name, const ReadOptions& options) {
  const std::string text = lower(options.find("opaque_cell").value_or(name));
  const bool is_gru = text.find("gru") != std::string::npos;
  const bool is_lstm = text.find("lstm") != std::string::npos;
  SLUICE_CHECK(is_gru != is_lstm, "'{}' does not say its cells; say --set opaque_cell=lstm or gru",
               name);
  return is_gru ? CellKind::kGru : CellKind::kLstm;
}

class Splitter {
 public:
  Splitter(std::string scope, const Sizes& sizes, const io::HostTensor& buffer)
      : scope_(std::move(scope)), sizes_(sizes), buffer_(buffer) {}

  /// cuDNN's orders of gates are PyTorch's: its LSTM's c is g.
  std::vector<FoundCell> split() {
    visit([&](SourceCell& cell) {
      cell.tensors["weight_ih"] = next({sizes_.rows(), cell.input});
      cell.tensors["weight_hh"] = next({sizes_.rows(), cell.hidden});
    });
    visit([&](SourceCell& cell) {
      cell.tensors["bias_ih"] = next({sizes_.rows()});
      cell.tensors["bias_hh"] = next({sizes_.rows()});
    });
    return std::move(cells_);
  }

 private:
  void visit(const auto& take) {
    std::size_t place = 0;
    for (std::int64_t layer = 0; layer < sizes_.layers; ++layer) {
      for (std::int64_t direction = 0; direction < sizes_.directions; ++direction, ++place) {
        if (place == cells_.size()) {
          FoundCell found{
              .scope = fmt::format("{}/cell_{}/{}", scope_, layer, direction == 0 ? "fw" : "bw")};
          found.cell.kind = sizes_.kind;
          found.cell.input = sizes_.input_of(layer);
          found.cell.hidden = found.cell.output = sizes_.hidden;
          cells_.push_back(std::move(found));
        }
        take(cells_[place].cell);
      }
    }
  }
  io::HostTensor next(const base::Shape& shape) {
    const auto count = static_cast<std::size_t>(shape.element_count());
    const auto part = buffer_.values<float>().subspan(at_, count);
    at_ += count;
    return io::HostTensor::copy_of<float>(part, shape);
  }

  std::string scope_;
  const Sizes sizes_;
  const io::HostTensor& buffer_;
  std::vector<FoundCell> cells_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<FoundCell> split_opaque_buffers(Variables& variables, const ReadOptions& options,
                                            Account& account) {
  std::vector<std::string> names;
  for (const auto& [name, variable] : variables.all()) {
    if (last_of(name).starts_with("opaque_kernel")) names.push_back(name);
  }
  if (names.empty()) return {};
  SLUICE_CHECK(names.size() == 1,
               "{}: {} are flat buffers of cuDNN; take one with --subgraph SCOPE", variables.file(),
               listed(names));
  const std::string& name = names[0];
  Sizes sizes{.kind = kind_of(name, options)};
  sizes.layers = size_of(options, "opaque_layers", kMostLayers, name);
  sizes.directions = size_of(options, "opaque_directions", 2, name);
  sizes.hidden = size_of(options, "opaque_hidden", kMostWidth, name);
  sizes.input = size_of(options, "opaque_input", kMostWidth, name);
  const std::vector<std::int64_t> stored = variables.sizes(name);
  SLUICE_CHECK(stored.size() == 1 && stored[0] == sizes.total(),
               "{}: '{}' has {} numbers, but an {} with these sizes has {}; check the answers "
               "opaque_layers, opaque_directions, opaque_hidden and opaque_input",
               variables.file(), name, stored.empty() ? 1 : stored[0], name_of(sizes.kind),
               sizes.total());
  account.find(fmt::format("'{}': an {} of {} layers with {} numbers, as the sizes say", name,
                           name_of(sizes.kind), sizes.layers, sizes.total()));
  account.assume(fmt::format(
      "'{}': the buffer has the layout of cuDNN's standard algorithm on the GPU that wrote it; if "
      "outputs are wrong, save a canonical checkpoint (CudnnCompatible cells) with TensorFlow",
      name));
  const io::HostTensor buffer = variables.take(name);
  std::string scope = scope_of(name);
  return Splitter(scope.empty() ? "cudnn" : scope, sizes, buffer).split();
}

}  // namespace sluice::interchange::tensorflow
