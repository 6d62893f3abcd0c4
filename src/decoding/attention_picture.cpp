#include <algorithm>

#include "base/check.h"
#include "decoding/attention_view.h"
#include "decoding/weight_color.h"
#include "io/png.h"

namespace sluice::decoding {
namespace {

// A weight is a square of so many pixels, or of fewer where sides would be longer than that.
constexpr std::int64_t kCell = 16, kMostPixels = 4096;

}  // namespace

Picture attention_picture(const AttentionView& view) {
  view.check();
  SLUICE_CHECK(!view.source.empty() && !view.target.empty(), "there is no attention to draw");
  const std::int64_t longest = std::max(std::ssize(view.source), std::ssize(view.target));
  const std::int64_t cell = std::clamp<std::int64_t>(kMostPixels / longest, 1, kCell);
  Picture picture;
  picture.width = std::ssize(view.source) * cell;
  picture.height = std::ssize(view.target) * cell;
  std::string pixels;
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const auto target = static_cast<std::size_t>(y / cell);
      const auto source = static_cast<std::size_t>(x / cell);
      const Color color = weight_color(static_cast<double>(view.attention[target][source]));
      for (const std::uint8_t part : {color.red, color.green, color.blue}) {
        pixels += static_cast<char>(part);
      }
    }
  }
  picture.png = io::encode_png(picture.width, picture.height, pixels);
  return picture;
}

}  // namespace sluice::decoding
