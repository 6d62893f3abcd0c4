#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/probe.h"

namespace sluice::checking {

/// What one layer put out for a batch, on the host.
struct LayerValues {
  std::string name;
  std::int64_t steps = 0, rows = 0, width = 0;
  std::int64_t directions = 1;  ///< as models::Shown
  std::int64_t sums = 1;        ///< layers of sums of products from the input up to here, or 0
  bool integers = false;        ///< tokens or lengths of inputs, rather than a layer's numbers
  std::vector<float> values;    ///< [steps, rows, width]
  std::vector<std::int32_t> lengths;  ///< [rows]: steps that count

  float at(std::int64_t step, std::int64_t row, std::int64_t unit) const {
    return values[static_cast<std::size_t>((step * rows + row) * width + unit)];
  }
};

/// Copies what it is shown to the host. What is not float32 is widened, or rounded.
class Recorder final : public models::Probe {
 public:
  void show(const models::Context& context, const models::Shown& shown) override;

  /// In the order in which they were shown, since the last clear().
  const std::vector<LayerValues>& layers() const { return layers_; }
  /// Null if there is none of that name.
  const LayerValues* find(std::string_view name) const;
  void clear();

 private:
  LayerValues& layer_of(const models::Shown& shown);

  std::vector<LayerValues> layers_;
  std::int64_t sums_ = 0;
};

}  // namespace sluice::checking
