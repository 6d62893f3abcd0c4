#include "base/check.h"
#include "decoding/attention_view.h"
#include "decoding/weight_color.h"
#include "io/png.h"

namespace sluice::decoding {
namespace {

constexpr std::int64_t kCell = 16;  // pixels

}  // namespace

Picture attention_picture(const AttentionView& view) {
  view.check();
  SLUICE_CHECK(!view.source.empty() && !view.target.empty(), "there is no attention to draw");
  Picture picture;
  picture.width = std::ssize(view.source) * kCell;
  picture.height = std::ssize(view.target) * kCell;
  std::string pixels;
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const auto target = static_cast<std::size_t>(y / kCell);
      const auto source = static_cast<std::size_t>(x / kCell);
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
