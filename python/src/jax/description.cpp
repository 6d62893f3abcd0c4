#include "description.h"

#include <stdexcept>

namespace sluice::jax {

Description::Description(std::span<const std::int64_t> numbers, std::span<const double> rates,
                         std::string_view implementation, std::string_view version)
    : numbers_(numbers), rates_(rates), implementation_(implementation) {
  const std::string here = sluice_version();
  if (version != here) {
    throw std::invalid_argument("the call was traced with Sluice " + std::string(version) +
                                ", and this is Sluice " + here + "; trace it again");
  }
  const bool complete =
      numbers.size() >= kNumbers && rates.size() == kRates && numbers[kLayers] > 0;
  const std::int64_t widths = complete ? numbers[kLayers] * (numbers[kProjected] != 0 ? 2 : 1) : 0;
  if (!complete || numbers.size() - kNumbers != static_cast<std::size_t>(widths)) {
    throw std::invalid_argument(
        "the attributes of the call are not those of this build of Sluice " + here +
        "; trace it again");
  }
}

std::span<const std::int64_t> Description::hidden() const {
  return numbers_.subspan(kNumbers, static_cast<std::size_t>(numbers_[kLayers]));
}

std::span<const std::int64_t> Description::projection() const {
  return numbers_.subspan(kNumbers + hidden().size());
}

std::int64_t Description::y_width() const {
  const auto widths = projection().empty() ? hidden() : projection();
  return numbers_[kDirections] * widths.back();
}

std::string Description::key() const {
  const auto bytes = [](auto span) {
    return std::string_view(reinterpret_cast<const char*>(span.data()), span.size_bytes());
  };
  std::string key(bytes(numbers_));
  return key.append(bytes(rates_)).append(implementation_);
}

sluice_recurrent_options Description::options(bool on_gpu, std::string& implementation) const {
  const auto number = [&](Number name) { return static_cast<std::int32_t>(numbers_[name]); };
  implementation = implementation_;
  sluice_recurrent_options options = SLUICE_INIT(sluice_recurrent_options);
  options.cell = number(kCell);
  options.layers = numbers_[kLayers];
  options.directions = numbers_[kDirections];
  options.input = numbers_[kInput];
  options.hidden = hidden().data();
  options.projection = projection().empty() ? nullptr : projection().data();
  options.time = numbers_[kTime];
  options.rows = numbers_[kRows];
  options.dtype = number(kDtype);
  options.weight_dtype = number(kWeightDtype);
  options.cell_dtype = number(kCellDtype);
  options.tf32 = on_gpu ? number(kTf32) : 0;
  options.training = number(kTraining);
  options.strided = number(kStrided);
  options.resets = number(kResets);
  options.peepholes = number(kPeepholes);
  options.layer_norm = number(kLayerNorm);
  options.hard_sigmoid = number(kHardSigmoid);
  options.dropout = rates_[kDropout];
  options.zoneout_h = rates_[kZoneoutH];
  options.zoneout_c = rates_[kZoneoutC];
  options.recurrent_dropout = rates_[kRecurrentDropout];
  options.implementation = implementation.c_str();
  return options;
}

}  // namespace sluice::jax
