#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace sluice::data {

/// A vector of numbers for each example, one behind the other.
struct FeatureVectors {
  std::int64_t width = 0;  ///< numbers of a vector
  std::vector<float> values;

  std::int64_t size() const {
    return width == 0 ? 0 : static_cast<std::int64_t>(values.size()) / width;
  }
  std::span<const float> vector(std::int64_t i) const {
    return std::span(values).subspan(static_cast<std::size_t>(i * width),
                                     static_cast<std::size_t>(width));
  }
  void add(std::span<const float> vector) {
    values.insert(values.end(), vector.begin(), vector.end());
  }
  /// The vectors at `indices`, in their order.
  FeatureVectors select(std::span<const std::int64_t> indices) const;
};

/// Reads the arrays of a .npy file, a .npz file or a folder of .npy files, in the order of
/// for_each_array: [vectors, features], or [features] for one vector. Throws ErrorCode::kFormat,
/// with the file and what in it, for arrays of other axes or of integers, that differ in features,
/// and for numbers that aren't finite in float32 (with vector and column, counted from 0);
/// otherwise as FrameReader.
FeatureVectors read_feature_vectors(const std::filesystem::path& path);

}  // namespace sluice::data
