#include "io/png.h"

#include <gtest/gtest.h>

#include <random>

#include "sluice/error.h"
#include "unit/support/png_reader.h"

namespace sluice::io {
namespace {

std::string random_pixels(std::int64_t width, std::int64_t height, unsigned seed) {
  std::mt19937 random(seed);
  std::string rgb;
  for (std::int64_t i = 0; i < 3 * width * height; ++i) rgb += static_cast<char>(random() & 0xff);
  return rgb;
}

TEST(Png, ReadsBack) {
  for (const auto& [width, height] : {std::pair{1, 1}, {1, 7}, {5, 1}, {33, 17}, {300, 200}}) {
    const std::string rgb = random_pixels(width, height, static_cast<unsigned>(width + height));
    const std::string file = encode_png(width, height, rgb);
    const testing::PngPixels image = testing::read_png(file);
    EXPECT_EQ(image.width, static_cast<std::uint32_t>(width));
    EXPECT_EQ(image.height, static_cast<std::uint32_t>(height));
    EXPECT_TRUE(image.rgb == rgb) << width << " x " << height;
    EXPECT_EQ(file, encode_png(width, height, rgb));
  }
}

TEST(Png, FlatPicturesAreSmall) {
  EXPECT_LT(encode_png(640, 480, std::string(3 * 640 * 480, '\xff')).size(), 2000u);
}

TEST(Png, RefusesPixelsThatDoNotFit) {
  EXPECT_THROW(encode_png(2, 2, std::string(11, 'x')), Error);
  EXPECT_THROW(encode_png(0, 2, ""), Error);
  EXPECT_THROW(encode_png(1, 1 << 20, std::string(3 << 20, 'x')), Error);
}

}  // namespace
}  // namespace sluice::io
