#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::bench {

/// A line `name key=value …` of a shape file.
struct ShapeLine {
  std::string place;  ///< "FILE:LINE", for errors
  std::string name;
  std::vector<std::pair<std::string, std::string>> keys;
};

/// The lines of a text that `origin` names in errors; `#` starts a comment. Throws Error for a
/// missing name, a word without `=` and a text without lines.
std::vector<ShapeLine> split_shape_lines(std::string_view text, std::string_view origin);

/// All of a shape file. Errors as io::read_file.
std::string read_shape_text(const std::filesystem::path& path);

/// Hands each key and value to `set`, and calls `check` at the end; what they throw gets the line's
/// place, and the key, in front.
void read_keys(const ShapeLine& line,
               const std::function<void(std::string_view key, std::string_view value)>& set,
               const std::function<void()>& check);

/// The shapes of a text that `origin` names in errors, one a line, whose `name` is the line's:
/// set_key(shape, key, value) for each of its keys, then check(shape). Both may throw Error.
template <typename Shape, typename SetKey, typename Check>
std::vector<Shape> shapes_of(std::string_view text, std::string_view origin, SetKey&& set_key,
                             Check&& check) {
  std::vector<Shape> shapes;
  for (const ShapeLine& line : split_shape_lines(text, origin)) {
    Shape shape;
    shape.name = line.name;
    read_keys(
        line, [&](std::string_view key, std::string_view value) { set_key(shape, key, value); },
        [&] { check(shape); });
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

/// The shapes in `dtype`, by set_dtype(shape, dtype), and on `device` instead of their own, unless
/// these are empty; those that are equal then, once.
template <typename Shape, typename SetDtype>
std::vector<Shape> moved_to(std::vector<Shape> shapes, std::string_view dtype,
                            std::string_view device, SetDtype&& set_dtype) {
  std::vector<Shape> moved;
  for (Shape& shape : shapes) {
    if (!dtype.empty()) set_dtype(shape, dtype);
    if (!device.empty()) shape.device = device;
    if (std::find(moved.begin(), moved.end(), shape) == moved.end()) {
      moved.push_back(std::move(shape));
    }
  }
  return moved;
}

/// An integer of at least `least`. Throws Error.
std::int64_t parse_number(std::string_view text, std::int64_t least);

}  // namespace sluice::bench
