#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::decoding {

/// Which source tokens each output token looked at.
struct AttentionView {
  std::vector<std::string> source;  ///< tokens as text, UTF-8
  std::vector<std::string> target;
  std::vector<std::vector<float>> attention;  ///< [target][source], weights in [0, 1]

  /// Throws ErrorCode::kInvalidArgument unless attention has target x source weights.
  void check() const;
};

/// A picture of the weights: a self-contained SVG with a row for each output token and a column for
/// each source token, labels around it and a scale beside it. Every cell tells its numbers on hover
/// in a browser.
std::string attention_svg(const AttentionView& view);

/// A picture's size in pixels and the content of its PNG file.
struct Picture {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::string png;
};

/// The cells of attention_svg alone, without labels, for what shows no SVG. There must be a weight.
Picture attention_picture(const AttentionView& view);

/// The same for a terminal of `columns` columns: a matrix of block shades under the source text if
/// all source tokens are single characters and fit side by side, else for every output token the
/// source tokens that it looked at most. Ends with a newline.
std::string attention_text(const AttentionView& view, std::int64_t columns = 100);

}  // namespace sluice::decoding
