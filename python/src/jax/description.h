#pragma once

#include <sluice.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::jax {

/// sluice_recurrent_options as attributes of a custom call. python/sluice/jax/_config.py writes the
/// numbers in this order; `hidden` [layers] and, if `projected`, `projection` [layers] follow them.
enum Number : std::size_t {
  kCell,
  kLayers,
  kDirections,
  kInput,
  kTime,
  kRows,
  kDtype,
  kWeightDtype,
  kCellDtype,
  kTf32,
  kTraining,
  kStrided,
  kResets,
  kPeepholes,
  kLayerNorm,
  kHardSigmoid,
  kProjected,
  kNumbers
};

/// Rates in the order of the attribute.
enum Rate : std::size_t { kDropout, kZoneoutH, kZoneoutC, kRecurrentDropout, kRates };

/// A view of the attributes of a call.
class Description {
 public:
  /// version: that of the Sluice that traced the call. Throws std::invalid_argument if it is not
  /// this library's, or if there are too few or too many numbers.
  Description(std::span<const std::int64_t> numbers, std::span<const double> rates,
              std::string_view implementation, std::string_view version);

  std::int64_t operator[](Number number) const { return numbers_[number]; }
  std::span<const std::int64_t> hidden() const;
  std::span<const std::int64_t> projection() const;  ///< empty: none
  /// Layers and directions.
  std::int64_t stacks() const { return numbers_[kLayers] * numbers_[kDirections]; }
  std::int64_t y_width() const;
  bool is_lstm() const { return numbers_[kCell] == SLUICE_LSTM; }

  /// Equal for equal descriptions.
  std::string key() const;
  /// Options that refer to this description's memory and to `implementation`, which is set to the
  /// name. Only a GPU has TF32.
  sluice_recurrent_options options(bool on_gpu, std::string& implementation) const;

 private:
  std::span<const std::int64_t> numbers_;
  std::span<const double> rates_;
  std::string_view implementation_;
};

}  // namespace sluice::jax
